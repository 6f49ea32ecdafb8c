package listen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/tetherexec/tether/internal/service"
)

// takeSocket returns the socket that the service manager has opened for this process.
func takeSocket(name string) (net.Listener, error) {
	socket, err := service.Socket(name)
	if err != nil {
		return nil, err
	}
	return fromFile(socket)
}

// ErrOpenSocket means that every user may connect to the socket of the service manager, without authentication.
var ErrOpenSocket = errors.New("every user of this machine can connect to it, and could run commands as the user of this server")

// resolve returns the endpoint of a socket that the service manager has opened, after the same checks as if this process had opened it.
func (c Config) resolve(inner net.Listener) (Endpoint, error) {
	switch addr := inner.Addr().(type) {
	case *net.TCPAddr:
		e := Endpoint{Transport: TCP, TLS: c.TLS.enabled(), Addr: netip.AddrPortFrom(addr.AddrPort().Addr().Unmap(), addr.AddrPort().Port())}
		return e, c.check(e, e.URL())
	case *net.UnixAddr:
		e := Endpoint{Transport: UnixSocket, Path: addr.Name}
		if err := c.check(e, e.URL()); err != nil {
			return e, err
		}
		return e, c.checkMode(e)
	}
	return Endpoint{}, fmt.Errorf("the service manager has handed over a socket of the family %s; tether serves IP and Unix sockets", inner.Addr().Network())
}

// checkMode refuses a socket file to which other users may connect without authentication. Those of a group may: its administrator has chosen it.
func (c Config) checkMode(e Endpoint) error {
	if c.Auth.enabled() || c.InsecureNoAuth {
		return nil
	}
	info, err := os.Lstat(e.Path)
	switch {
	case e.Path == "" || e.Path[0] == '@':
		return fmt.Errorf("refusing to listen on the socket `%s`, which is not a file: %w", e.Path, ErrOpenSocket)
	case err != nil:
		return fmt.Errorf("look at the socket of the service manager: %w", err)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("refusing to listen on `%s`: %w", e.URL(), ErrOpenSocket)
	}
	return nil
}
