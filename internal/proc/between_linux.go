package proc

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/outlog"
)

// newBetween makes the pipe through which a Filler gets the output of a terminal.
func newBetween() (*outlog.Between, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	return outlog.NewBetween(ends[0], ends[1]), nil
}

func closeBetween(b *outlog.Between) {
	if b != nil {
		unix.Close(b.Read)
		unix.Close(b.Write)
	}
}
