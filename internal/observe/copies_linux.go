package observe

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// copies finds listeners by copies of descriptors of commands. To close a copy may take as long as the command wants: if the command closes its socket
// meanwhile, the copy is the last one, and waits for the bytes of the socket as SO_LINGER says. So a goroutine does it that no request depends on.
type copies struct {
	running  chan struct{} // a semaphore
	patience time.Duration
	close    func(fd int) error
}

var copying = copies{make(chan struct{}, 16), time.Second, unix.Close}

// address finds the address at which a process waits for connections to a port. Reading the table of all sockets takes many times as long. It finds nothing if
// too many copies are still being closed.
func (c *copies) address(handle, pid int, port uint16) (address netip.Addr, found bool) {
	select {
	case c.running <- struct{}{}:
	default:
		return address, false
	}
	own, err := unix.FcntlInt(uintptr(handle), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		<-c.running
		return address, false
	}
	result := make(chan netip.Addr, 1)
	go func() { // ends when its copies are closed, which nothing can hasten; running bounds how many there are
		if address, found := c.look(own, pid, port); found {
			result <- address
		}
		close(result)
		unix.Close(own)
		<-c.running
	}()
	select {
	case address, found = <-result:
	case <-time.After(c.patience):
	}
	return address, found
}

func (c *copies) look(handle, pid int, port uint16) (address netip.Addr, found bool) {
	descriptors, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return address, false
	}
	defer descriptors.Close()
	names, _ := descriptors.Readdirnames(maxDescriptors)
	for _, name := range names {
		number, _ := strconv.Atoi(name)
		if f, ok := fileOf(fmt.Sprintf("/proc/%d/fd/%d", pid, number)); !ok || f.Kind != FileSocket {
			continue
		}
		fd, err := unix.PidfdGetfd(handle, number, 0)
		if err != nil {
			continue
		}
		listens, _ := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN) // 0 for a file
		name, _ := syscall.Getsockname(fd)                                        // that of package unix knows many families, and is large
		c.close(fd)
		switch at := name.(type) {
		case *syscall.SockaddrInet4:
			address, found = netip.AddrFrom4(at.Addr), at.Port == int(port)
		case *syscall.SockaddrInet6:
			address, found = netip.AddrFrom16(at.Addr), at.Port == int(port)
		}
		if found = found && listens == 1; found {
			return address, true
		}
	}
	return address, false
}
