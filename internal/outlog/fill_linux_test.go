package outlog

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The end of a terminal is not seen before its last output, although the kernel looks for output first and for the end
// then. It takes some ten thousand rounds until the output comes between the two.
func TestLastOutputOfATerminal(t *testing.T) {
	t.Parallel()
	for range scaled(200, 30_000) {
		master, slave := openTerminal(t)
		done := make(chan struct{})
		go func() { // ends at once
			defer close(done)
			slave.WriteString("x")
			slave.Close()
		}()
		fd := int(master.Fd())
		err := awaitable(fd, nil)
		for err == unix.EAGAIN {
			err = awaitable(fd, nil)
		}
		<-done
		master.Close()
		if err != nil {
			t.Fatalf("the terminal ended before its output: %v", err)
		}
	}
}
