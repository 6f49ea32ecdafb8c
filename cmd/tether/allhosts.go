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
	"github.com/tetherexec/tether/internal/terminal"
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

// merge returns the entries of all lists.
func merge[E any](answers []hostAnswer[[]E]) (all []E) {
	for _, a := range answers {
		all = append(all, a.value...)
	}
	return all
}

// everywhere returns a list of the server or, if conn goes through a gateway and the user has named no host, the lists of all hosts of the
// fleet that answer.
func everywhere[E any](ctx context.Context, conn *connection, list func(context.Context, *connection) ([]E, error)) ([]E, error) {
	if conn.Host() == "" || conn.flags.namesHost() {
		return list(ctx, conn)
	}
	answers, err := askHosts(ctx, conn.flags, list)
	conn.silent = nil
	for _, a := range answers {
		if a.err != nil {
			conn.silent = append(conn.silent, a.host)
		}
	}
	return merge(answers), err
}

// notFound adds to an error about something that is not there which hosts could not be asked.
func (c *connection) notFound(err error) error {
	if err != nil && len(c.silent) > 0 {
		return fmt.Errorf("%w (no answer from the hosts: %s)", err, strings.Join(c.silent, ", "))
	}
	return err
}

// moveTo replaces the session by one with another host of the fleet, if conn goes through a gateway.
func (c *connection) moveTo(ctx context.Context, host string) error {
	if host == c.Host() {
		return nil
	}
	gateway, _, err := c.flags.gateway()
	if err != nil {
		return err
	}
	c.endSession()
	if err := c.Client.Close(); err != nil {
		return err
	}
	c.server.address = gateway.host(host)
	if err := c.open(ctx, c.options); err != nil {
		return fmt.Errorf("host %s: %w", host, err)
	}
	return nil
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
	}
	o, err = f.options(client.Options{Name: clientName})
	return a, o, err
}

// checkAll refuses --all-hosts with an address that asks for some host.
func (f *serverFlags) checkAll() error {
	a, _, err := f.address()
	if err == nil && len(a.query()) > 0 {
		err = usageError{fmt.Errorf("--%s: leave out what follows the ? in the URL %s", allHosts, a.url)}
	}
	return err
}

// namesHost reports whether the user has named a host of a fleet.
func (f *serverFlags) namesHost() bool {
	a, _, err := f.address()
	return err == nil && a.query().Has(wire.QueryHost)
}

// dialObserver is dial for a command that starts nothing: it may also use a host that is draining.
func (f *serverFlags) dialObserver(ctx context.Context, status *terminal.StatusLine, o client.Options) (*connection, error) {
	conn, err := f.dial(ctx, status, o, homeServer(false))
	a, named, _ := f.address()
	if !named || a.command != nil || !hasAnswered(err) {
		return conn, err
	}
	query := a.query()
	query.Set(wire.QueryDraining, "true")
	again, failed := f.dialNamed(ctx, a.with(query), status, o)
	if failed != nil {
		return nil, err
	}
	return again, nil
}

// hasAnswered reports whether a session could not be opened although the server has answered: a gateway may have found no host.
func hasAnswered(err error) bool {
	_, attempted := errors.AsType[*client.AttemptError](err)
	_, unreachable := errors.AsType[*client.DialError](err)
	_, refused := errors.AsType[*client.UpgradeError](err)
	return attempted && !unreachable && !refused
}

// query returns the parameters of the URL.
func (a address) query() url.Values {
	if u, err := url.Parse(a.url); err == nil && u.Scheme != schemeUnix {
		return u.Query()
	}
	return url.Values{}
}

// with returns the address with other parameters.
func (a address) with(query url.Values) address {
	if path, onSocket := strings.CutPrefix(a.url, schemeUnix+"://"); onSocket {
		a.url = "ws://localhost/"
		a.connect = func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", path) }
	}
	if u, err := url.Parse(a.url); err == nil {
		u.RawQuery = query.Encode()
		a.url = u.String()
	}
	return a
}

// schemeUnix is the scheme of the URL of a socket, which has no parameters.
const schemeUnix = "unix"

// host returns the address of a host behind a gateway, for a client that starts nothing there.
func (a address) host(name string) address {
	return a.with(url.Values{wire.QueryHost: {name}, wire.QueryDraining: {"true"}})
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
