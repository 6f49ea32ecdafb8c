package listen

import (
	"context"
	"net"
	"syscall"
)

// listenPrivate listens on a socket file with mode 0600. On Linux the file gets the
// mode of the socket that is bound to it. So the mode is never wider, and the umask
// of the process need not change.
func listenPrivate(ctx context.Context, path string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var chmod error
		if err := raw.Control(func(fd uintptr) { chmod = syscall.Fchmod(int(fd), 0o600) }); err != nil {
			return err
		}
		return chmod
	}}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// socketPair makes two connected sockets that no child inherits.
func socketPair() ([2]int, error) {
	return syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
}
