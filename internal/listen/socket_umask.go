//go:build unix && !linux

package listen

import (
	"context"
	"net"
	"sync"
	"syscall"
)

var umaskMu sync.Mutex // the umask belongs to the whole process

// listenPrivate listens on a socket file with mode 0600.
func listenPrivate(ctx context.Context, path string) (*net.UnixListener, error) {
	umaskMu.Lock()
	defer umaskMu.Unlock()
	defer syscall.Umask(syscall.Umask(0o177))
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// socketPair makes two connected sockets that no child inherits.
func socketPair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	return fds, err
}
