package listen

import (
	"context"
	"net"
)

// listenPrivate listens on a socket file. Windows has no file modes: the access
// list of the directory protects it.
func listenPrivate(ctx context.Context, path string) (*net.UnixListener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}
