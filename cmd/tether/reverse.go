//go:build mcp || fleet || !split

package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/tetherexec/tether/client/ports"
	"github.com/tetherexec/tether/internal/terminal"
)

// noListening is the message about a server without [client.FeaturePortListen].
const noListening = "the server does not listen for clients: it was not started with --forward-reverse loopback, or is not a tether server of this version"

// A reverseSpec is a value of `tether forward --reverse`.
type reverseSpec struct{ at, to ports.Target }

// parseReverse understands [ADDRESS:]PORT, [ADDRESS:]PORT:PORT and [ADDRESS:]PORT:HOST:PORT. An address has more than digits.
func parseReverse(text string) (s reverseSpec, err error) {
	first, rest, two := strings.Cut(text, ":")
	switch {
	case strings.HasPrefix(text, "["):
		s.at.Host, rest, two = strings.Cut(text[1:], "]:")
	case strings.Trim(first, "0123456789") != "":
		s.at.Host = first
	default:
		rest, two = text, true
	}
	if !two {
		return s, refuseReverse(text, "a port is missing")
	}
	there, here, two := strings.Cut(rest, ":")
	if s.at.Port, err = parsePort(there, two); err != nil {
		return s, refuseReverse(text, err.Error())
	}
	if s.to.Port = s.at.Port; !two {
		return s, nil
	}
	host, port, err := splitHost(here)
	if s.to.Host = host; err == nil {
		s.to.Port, err = parsePort(port, false)
	}
	if err != nil {
		return s, refuseReverse(text, err.Error())
	}
	return s, nil
}

func refuseReverse(text, why string) error {
	return usageError{fmt.Errorf("--reverse %q: %s; expected PORT, PORT:PORT or PORT:HOST:PORT, with an address before it if need be", text, why)}
}

func parseReverses(args []string) (specs []reverseSpec, err error) {
	if len(args) > ports.MaxListeners {
		return nil, usageError{fmt.Errorf("--reverse can be given %d times at most", ports.MaxListeners)}
	}
	for _, arg := range args {
		s, err := parseReverse(arg)
		if err != nil {
			return nil, err
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// listenThere lets the server listen, and forwards what comes until ctx ends.
func listenThere(ctx context.Context, f *ports.Forwarder, specs []reverseSpec, status *terminal.StatusLine, tasks *sync.WaitGroup) error {
	for _, s := range specs {
		l, err := f.Listen(ctx, s.at)
		if err != nil {
			return err
		}
		for _, address := range l.Addresses {
			status.Note(fmt.Sprintf("%s of the server's machine is forwarded to %s", net.JoinHostPort(address, strconv.Itoa(int(l.Port))), s.to))
		}
		tasks.Go(func() { // ends with ctx
			l.Serve(ctx, s.to, func(err error) { status.Note(terminal.Printable(err.Error())) })
		})
	}
	return nil
}
