package netproxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/tetherexec/tether/internal/host"
	"github.com/tetherexec/tether/internal/netpolicy"
)

// A refusedError is returned by decide and dial if the rules, or the client that
// was asked, refuse.
type refusedError struct{ decision netpolicy.Decision }

func (e *refusedError) Error() string { return "refused: " + e.decision.Reason }

// errLoop is returned for a query that leads back to this proxy.
var errLoop = errors.New("the address is the proxy's own")

// A route says how to reach the host of an allowed query.
type route struct {
	upstream  *host.Proxy      // the proxy to go through, or nil
	addresses []netip.AddrPort // else: the addresses to try, all allowed, in this order
}

// dial decides about q, asks if necessary, resolves, reports, and connects, through
// an upstream proxy if there is one. A *refusedError means that nothing was dialled.
// The caller must close the connection.
func (p *Proxy) dial(ctx context.Context, q netpolicy.Query, client net.Addr) (net.Conn, error) {
	r, err := p.decide(ctx, q, client)
	if err != nil {
		return nil, err
	}
	if r.upstream != nil {
		return p.dialUpstream(ctx, r.upstream, addressOf(q))
	}
	return p.connect(ctx, r.addresses)
}

// decide is dial without the connection. The addresses in the route are the ones that
// were checked: if the name were resolved again, it could have other addresses.
func (p *Proxy) decide(ctx context.Context, q netpolicy.Query, client net.Addr) (route, error) {
	e := Event{Query: q, Client: client.String()}
	e.Decision = p.config.Rules.Decide(q)
	if !e.Decision.Allowed && e.Decision.Open && p.config.Ask != nil {
		e.Asked = true
		e.Decision = p.ask(ctx, q)
	}
	var r route
	var failed error
	if e.Decision.Allowed {
		r, failed = p.route(ctx, q, &e)
	}
	p.report(e)
	if !e.Decision.Allowed {
		return route{}, &refusedError{e.Decision}
	}
	return r, failed
}

// ask calls Config.Ask about q. An error is a denial.
func (p *Proxy) ask(ctx context.Context, q netpolicy.Query) netpolicy.Decision {
	d, err := p.config.Ask(ctx, q)
	if err != nil || ctx.Err() != nil {
		return netpolicy.Decision{Source: netpolicy.Decider, Reason: netpolicy.NotAllowed}
	}
	return d
}

// unknown stands for the addresses of a name that cannot be resolved: they may be private.
var unknown = netip.IPv4Unspecified()

// route returns the route of a query that is allowed by name. If one of the name's
// addresses is not allowed, it changes the decision in e to a denial. A name is also
// resolved if an upstream proxy will resolve it again. An unknown name is passed to the
// proxy only if the rules allow every address.
func (p *Proxy) route(ctx context.Context, q netpolicy.Query, e *Event) (route, error) {
	r := route{upstream: upstreamFor(p.proxies, q)}
	anything := p.config.Rules.Address(q, unknown)
	timeout, optional := resolveTimeout, r.upstream != nil && anything.Allowed
	if optional {
		timeout = lookTimeout
	}
	addrs, err := p.resolve(ctx, q.Host, timeout)
	if err != nil && optional && ctx.Err() == nil {
		return r, nil
	}
	if err != nil {
		p.config.Log.Warn("a host is not known", "host", q.Host, "err", err)
		if !anything.Allowed {
			e.Decision = anything
		}
		return route{}, err
	}
	for _, a := range addrs {
		target := netip.AddrPortFrom(a.Unmap(), q.Port)
		if !e.Address.IsValid() {
			e.Address = target
		}
		if d := p.config.Rules.Address(q, target.Addr()); !d.Allowed {
			e.Decision, e.Address = d, target
			return route{}, nil
		}
		if p.config.Own != nil && p.config.Own(target) {
			e.Decision, e.Address = ownListener, target
			return route{}, nil
		}
		if r.upstream == nil && p.listensAt(target) {
			return route{}, errLoop
		}
		if len(r.addresses) < maxAddresses {
			r.addresses = append(r.addresses, target)
		}
	}
	return r, nil
}

// ownListener is the decision about an address where tether itself listens.
var ownListener = netpolicy.Decision{Source: netpolicy.Baseline, Reason: netpolicy.NotAllowedLocal, Rule: "tether listens there"}

// resolve returns the addresses of a host, at least one.
func (p *Proxy) resolve(ctx context.Context, host string, timeout time.Duration) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	addrs, err := p.config.Resolve(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("resolve: %w", err)
	}
	if len(addrs) == 0 {
		return nil, errors.New("resolve: no addresses")
	}
	return addrs, nil
}

// report reports a decision. The log line has the host, never the request.
func (p *Proxy) report(e Event) {
	e.Time = time.Now()
	decision := "deny"
	if e.Decision.Allowed {
		decision = "allow"
	}
	p.config.Log.LogAttrs(p.ctx, slog.LevelInfo, "network "+decision,
		slog.String("host", e.Query.Host), slog.Int("port", int(e.Query.Port)),
		slog.String("protocol", string(e.Query.Protocol)), slog.String("decision", decision),
		slog.String("reason", e.Decision.Reason))
	if p.config.Decided != nil {
		p.config.Decided(e)
	}
}

// connect connects to the first of these addresses that accepts. It tries the next one
// when one fails or is slow. The caller must close the connection.
func (p *Proxy) connect(ctx context.Context, addresses []netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	stop := context.AfterFunc(p.ctx, cancel)
	defer stop()

	type result struct {
		conn net.Conn
		err  error
	}
	results := make(chan result)
	pending := 0
	try := func(a netip.AddrPort) {
		pending++
		go func() { // ends before connect does
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", a.String())
			results <- result{c, err}
		}()
	}

	var won net.Conn
	var first error
	timer := time.NewTimer(0)
	defer timer.Stop()
	for won == nil && (pending > 0 || len(addresses) > 0) {
		select {
		case <-timer.C:
			if len(addresses) > 0 {
				try(addresses[0])
				addresses = addresses[1:]
				timer.Reset(fallbackDelay)
			}
		case r := <-results:
			pending--
			won = r.conn
			if r.err != nil && first == nil {
				first = r.err
			}
			timer.Reset(0)
		}
	}
	cancel()
	for range pending {
		if r := <-results; r.conn != nil {
			r.conn.Close()
		}
	}
	if won == nil {
		return nil, first
	}
	return p.track(won, nil)
}
