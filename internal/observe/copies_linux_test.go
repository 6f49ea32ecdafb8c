package observe

import (
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// A copy of a descriptor that cannot be closed in time delays no search but its own, and that not for long.
func TestCopiesThatStayOpen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().(*net.TCPAddr).AddrPort()
	handle, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		need.CannotRun(t, "no pidfd: %v", err)
	}
	defer unix.Close(handle)
	goOn, waits := make(chan struct{}), make(chan struct{}, 1)
	c := copies{make(chan struct{}, 1), hang.Limit, func(fd int) error {
		select {
		case waits <- struct{}{}:
		default:
		}
		<-goOn
		return unix.Close(fd)
	}}
	c.patience = 1
	if _, found := c.address(handle, os.Getpid(), at.Port()); found {
		t.Error("an address was found by a copy that is still open")
	}
	<-waits
	c.patience = hang.Limit
	if _, found := c.address(handle, os.Getpid(), at.Port()); found {
		t.Error("another search uses copies at the same time")
	}
	close(goOn)
	select {
	case c.running <- struct{}{}: // the first search is over
		<-c.running
	case <-time.After(hang.Limit):
		t.Fatal("the search does not end")
	}
	if got, found := c.address(handle, os.Getpid(), at.Port()); !found || got != at.Addr() {
		t.Errorf("%v, %v", got, found)
	}
}
