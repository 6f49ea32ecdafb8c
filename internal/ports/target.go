package ports

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/oserr"
)

// A Policy says to which targets a server forwards.
type Policy string

// The policies.
const (
	Loopback Policy = "loopback" // the addresses 127.0.0.0/8 and ::1, and the name localhost
	Any      Policy = "any"
	Nowhere  Policy = "none"
)

// Policies are all of them. The first is the default.
var Policies = []Policy{Loopback, Any, Nowhere}

// ReversePolicies say where a server listens for clients. The first is the default.
var ReversePolicies = []Policy{Nowhere, Loopback}

// dialTimeout bounds the attempts to reach a target.
const dialTimeout = 20 * time.Second

// Conditions that callers distinguish.
var (
	ErrDenied      = errors.New("the server forwards to its own machine only; `tether serve --forward any` allows others")
	ErrNowhere     = errors.New("the server forwards no ports (--forward none)")
	ErrUnreachable = errors.New("the target cannot be reached")
	ErrUnknown     = errors.New("unknown forwarded connection: the server has lost it or never had it")
	ErrLimit       = errors.New("limit reached")
	ErrInvalid     = errors.New("invalid forwarded connection")
	ErrDiffers     = errors.New("the id of the forwarded connection was used for another target")
	ErrMissing     = errors.New("the forwarded connection cannot go on: the client asks for bytes that are not there")
	ErrClosed      = errors.New("the forwarded connection was closed")

	ErrNoListening = errors.New("the server does not listen for clients; `tether serve --forward-reverse loopback` allows it")
	ErrNoListener  = errors.New("unknown listener: the server has lost it or never had it")
	ErrNotLocal    = errors.New("the server does not listen")
	ErrNotFree     = errors.New("the server cannot listen")
)

// localhost are the addresses of this machine, where a program may listen at either.
var localhost = []string{"127.0.0.1", "::1"}

// maxHost is the longest name of a host in DNS.
const maxHost = 255

// addresses returns what to dial for a host; an empty one is this machine.
func (policy Policy) addresses(host string, port uint16) ([]string, error) {
	hosts := []string{host}
	address, err := netip.ParseAddr(host)
	switch {
	case policy == Nowhere:
		return nil, ErrNowhere
	case port == 0:
		return nil, fmt.Errorf("%w: port 0", ErrInvalid)
	case len(host) > maxHost:
		return nil, fmt.Errorf("%w: the host has more than %d bytes", ErrInvalid, maxHost)
	case host == "" || strings.EqualFold(host, "localhost"):
		hosts = localhost
	case policy == Any || err == nil && address.Unmap().IsLoopback():
	default: // a name is not even looked up
		return nil, fmt.Errorf("%s: %w", net.JoinHostPort(host, strconv.Itoa(int(port))), ErrDenied)
	}
	addresses := make([]string, len(hosts))
	for i, h := range hosts {
		addresses[i] = net.JoinHostPort(h, strconv.Itoa(int(port)))
	}
	return addresses, nil
}

// Reach connects to a port of a host; an empty one is this machine.
func Reach(ctx context.Context, host string, port uint16) (net.Conn, error) {
	addresses, err := Any.addresses(host, port)
	if err != nil {
		return nil, err
	}
	return dial(ctx, addresses)
}

// dial connects to the first address that answers. The error is that of the first one.
func dial(ctx context.Context, addresses []string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var first error
	for _, address := range addresses {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = fmt.Errorf("%w: %s: %s", ErrUnreachable, address, oserr.Text(err))
		}
	}
	return nil, first
}
