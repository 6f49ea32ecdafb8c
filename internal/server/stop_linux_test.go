package server_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// deadDisk mounts a file system whose server never answers.
func deadDisk(t *testing.T) string {
	t.Helper()
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())
	if err := unix.Mount("dead", dir, "fuse", 0, options); err != nil {
		device.Close()
		t.Skip("mount: ", err)
	}
	t.Cleanup(func() {
		device.Close() // pending system calls fail
		unix.Unmount(dir, unix.MNT_DETACH)
	})
	return dir
}

// A start that hangs does not keep the server from ending its processes, whether
// the client is connected or not.
func TestStopDuringAStartThatHangs(t *testing.T) {
	for name, left := range map[string]bool{"attached": false, "detached": true} {
		t.Run(name, func(t *testing.T) { testStopDuringAStartThatHangs(t, left) })
	}
}

func testStopDuringAStartThatHangs(t *testing.T, left bool) {
	dir := deadDisk(t)
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Shell("stubborn", "trap '' TERM; echo on; while :; do sleep 1; done", nil))
	c.AwaitEvent("stubborn")
	p, err := c.Listed("stubborn")
	if err != nil {
		t.Fatal(err)
	}
	c.Ask("process/start", tethertest.Command("hangs", []string{"/bin/true"}, map[string]any{"cwd": dir + "/x"}))
	c.Must("environment/status", struct{}{}, nil) // the start is running

	if left {
		c.Close()
		awaitAlone(t, tethertest.Connect(t, s.URL))
	}
	began := time.Now()
	s.Stop()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("the end took %v", took)
	}
	if err := syscall.Kill(p.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", p.PID, err)
	}
}
