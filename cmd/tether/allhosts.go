package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

const (
	// parallelHosts is how many hosts of a fleet are asked at a time.
	parallelHosts = 16

	// hostPatience is how long one host may take to answer.
	hostPatience = 10 * time.Second

	// gatewayStep is the pause between attempts to reach a gateway with --wait.
	gatewayStep = 250 * time.Millisecond
)

const allHosts = "all-hosts"

func defineAllHosts(fs *pflag.FlagSet, all *bool) {
	fs.BoolVar(all, allHosts, false, "ask every host of the fleet of which --url names a gateway")
}

// A hostAnswer is what one host of a fleet has answered.
type hostAnswer[T any] struct {
	host  string
	value T
	err   error // why there is no answer
}

// askHosts asks each host of a fleet in a session of its own, at most parallelHosts at a time. It returns the answers in the order of the
// hosts' names. The server must be a gateway, and its URL name no host.
func askHosts[T any](ctx context.Context, f *serverFlags, ask func(context.Context, *connection) (T, error)) ([]hostAnswer[T], error) {
	gateway, o, err := f.gateway()
	if err != nil {
		return nil, err
	}
	hosts, err := f.hosts(ctx, gateway, o)
	if err != nil {
		return nil, err
	}
	answers := make([]hostAnswer[T], len(hosts))
	free := slots.New(parallelHosts)
	var asking sync.WaitGroup
	for i, h := range hosts {
		answers[i].host = h.Name
		if h.State == wire.HostUnreachable {
			answers[i].err = errors.New("it is not reachable")
			continue
		}
		if answers[i].err = free.Take(ctx); answers[i].err != nil {
			continue
		}
		asking.Go(func() { // ends with its context
			defer free.Free()
			answers[i].value, answers[i].err = askHost(ctx, f, gateway.host(h.Name), o, ask)
		})
	}
	asking.Wait()
	return answers, ctx.Err()
}

func askHost[T any](ctx context.Context, f *serverFlags, host address, o client.Options, ask func(context.Context, *connection) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hostPatience, fmt.Errorf("it has not answered for %v", hostPatience))
	defer cancel()
	conn := &connection{flags: f, server: target{address: host}}
	if err = conn.open(ctx, o); err == nil {
		defer conn.end()
		answer, err = ask(ctx, conn)
	}
	if e, ok := errors.AsType[*client.AttemptError](err); ok {
		err = e.Err // the address of the gateway says nothing about the host
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return answer, err
}

// An entry of a list has a host, which merge sets.
type entry interface{ listedProcess | listedSession }

// merge returns the entries of all lists, with their hosts.
func merge[E entry](answers []hostAnswer[[]E]) (all []E) {
	for _, a := range answers {
		for _, e := range a.value {
			switch e := any(&e).(type) {
			case *listedProcess:
				e.Host = a.host
			case *listedSession:
				e.Host = a.host
			}
			all = append(all, e)
		}
	}
	return all
}

// everywhere returns a list of the server or, if it is a gateway and the user has named no host of its fleet, the lists of all hosts that
// answer.
func everywhere[E entry](ctx context.Context, conn *connection, list func(context.Context, *connection) ([]E, error)) ([]E, error) {
	if conn.Host() == "" || conn.server.query() != nil {
		return list(ctx, conn)
	}
	answers, err := askHosts(ctx, conn.flags, list)
	if err != nil {
		return nil, err
	}
	_ = tellSilent(answers, conn.stderr)
	return merge(answers), nil
}

// moveTo makes the connection one to another host of the fleet, unless the user has named one. The session with the present host ends.
func (c *connection) moveTo(ctx context.Context, host string) error {
	if host == "" || host == c.Host() {
		return nil
	}
	gateway, o, err := c.flags.gateway()
	if err != nil {
		return err
	}
}

// hosts returns the hosts of the fleet of a gateway.
func (f *serverFlags) hosts(ctx context.Context, gateway address, o client.Options) (hosts []wire.FleetHost, err error) {
	for begin := time.Now(); ; {
		hosts, err = client.Hosts(ctx, gateway.url, o)
		_, unreachable := errors.AsType[*client.DialError](err)
		if !unreachable || time.Since(begin) >= o.Wait {
			break
		}
		select {
		case <-time.After(gatewayStep):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if errors.Is(err, client.ErrNoGateway) {
		return nil, fmt.Errorf("--%s: %s: %w; leave the flag out to ask this server alone", allHosts, gateway.url, client.ErrNoGateway)
	}
	if err != nil {
		return nil, f.advise(gateway, err)
	}
	return hosts, nil
}

// gateway returns the address that the user has named, if it can be that of a gateway, and the options for its hosts.
func (f *serverFlags) gateway() (a address, o client.Options, err error) {
	a, named, err := f.address()
	switch {
	case err != nil:
		return a, o, err
	case !named || a.command != nil:
		return a, o, usageError{fmt.Errorf("--%s needs the URL of a gateway of a fleet, with --url or %s", allHosts, envURL)}
	case a.query() != nil:
		return a, o, usageError{fmt.Errorf("--%s: leave out what follows the ? in the URL %s", allHosts, a.url)}
	}
	o, err = f.options(client.Options{Name: clientName})
	if path, onSocket := strings.CutPrefix(a.url, "unix://"); onSocket {
		o.Connect = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	}
	return a, o, err
}

// query returns the parameters of the URL; nil: it has none.
func (a address) query() url.Values {
	u, err := url.Parse(a.url)
	if err != nil || u.RawQuery == "" || u.Scheme == "unix" {
		return nil
	}
	return u.Query()
}

// host returns the address of a host behind a gateway, for a client that starts no commands there.
func (a address) host(name string) address {
	u := &url.URL{Scheme: "ws", Host: "localhost", Path: "/"} // the options lead to the socket
	if !strings.HasPrefix(a.url, "unix://") {
		u, _ = url.Parse(a.url) // parseAddress and the gateway have accepted it
	}
	u.RawQuery = url.Values{wire.QueryHost: {name}, wire.QueryDraining: {"true"}}.Encode()
	return address{url: u.String()}
}

// tellSilent names the hosts that have not answered. It returns an error if there are any.
func tellSilent[T any](answers []hostAnswer[T], stderr io.Writer) (err error) {
	for _, a := range answers {
		if a.err != nil {
			printLine(stderr, fmt.Sprintf("host %s does not answer: %v", a.host, a.err))
			err = codedError{code: exitError}
		}
	}
	return err
}
