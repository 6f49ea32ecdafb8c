package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/wire"
)

// A route is the host that a client gets.
type route struct {
	host   fleet.Host
	record *record // of the session that the client resumes; nil: it opens one
}

// parseQuery returns which host a client has asked for in its URL: ?host=NAME&label=KEY&label=KEY=VALUE&draining=true.
func parseQuery(raw string) (q directory.Query, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, fmt.Errorf("the query of the URL cannot be read: %w", err)
	}
	for key := range values {
		if key != wire.QueryHost && key != wire.QueryLabel && key != wire.QueryDraining {
			return q, fmt.Errorf("the URL asks for %q: use host=NAME or label=KEY=VALUE", key)
		}
	}
	q = directory.Query{Host: values.Get(wire.QueryHost), Labels: values[wire.QueryLabel], Draining: values.Get(wire.QueryDraining) == "true"}
	if len(values[wire.QueryHost]) > 1 {
		return q, errors.New("the URL names several hosts: name one")
	}
	if q.Host != "" {
		err = fleet.CheckHostName(q.Host)
	}
	return q, errors.Join(err, fleet.CheckLabels(q.Labels))
}

// route finds the host of a client. If the client resumes a session that the directory does not know, or that belongs to another principal,
// the error is directory.ErrNoSession: no host may learn the id of a session that it does not have. Only a host that the client names is asked
// nevertheless.
func (g *Gateway) route(ctx context.Context, h hello, c listen.Client) (route, error) {
	q, err := parseQuery(c.Query)
	if err != nil {
		return route{}, err
	}
	if h.resume != "" {
		key := fleet.SessionKey(h.resume)
		session, rev, err := g.sessions.TakeOver(ctx, key, c.Principal, attachedTTL)
		if err == nil {
			return g.routeTo(newRecord(key, session, rev))
		}
		if !errors.Is(err, directory.ErrNoSession) || q.Host == "" {
			return route{}, err
		}
	}
	host, err := g.hosts.Choose(q)
	return route{host: host}, err
}

// routeTo returns the route to the host of a session.
func (g *Gateway) routeTo(r *record) (route, error) {
	host, known := g.hosts.Get(r.session.Host)
	if !known {
		return route{}, &directory.Unavailable{Reason: fmt.Sprintf("host %s, which has the session, is not connected", r.session.Host)}
	}
	if host.State == directory.Unreachable {
		return route{}, &directory.Unavailable{Reason: fmt.Sprintf("host %s, which has the session, has not been reachable for %d s", r.session.Host, int(host.Age.Seconds()))}
	}
	return route{host.Host, r}, nil
}

// isTemporary reports whether a client that tries again soon may succeed.
func isTemporary(err error) bool {
	_, yes := errors.AsType[*directory.Unavailable](err)
	return yes
}
