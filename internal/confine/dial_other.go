//go:build !linux

package confine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
)

// Dial is only on Linux, where processes have networks of their own.
func Dial(context.Context, *os.File, netip.AddrPort) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}
