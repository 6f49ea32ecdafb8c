package listen

import (
	"bytes"
	"log"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/metrics"
	"github.com/tetherexec/tether/wire"
)

// The ways by which connections come: the label listener.
const (
	viaWS        = "ws"
	viaWSS       = "wss"
	viaUnix      = "unix"
	viaConsole   = "console"   // a browser, through any listener
	viaInProcess = "inProcess" // the program of which the server is a part
	ViaFleet     = "fleet"     // a gateway
)

// What becomes of connections: the label outcome.
const (
	served    = "served"
	tooMany   = "limit"     // there were too many
	stopping  = "stopping"  // the server is about to end
	refused   = "refused"   // the client may not connect
	malformed = "malformed" // it did not ask for a WebSocket as it should
)

// Why clients may not connect: the label reason, with those of package console. Verifiers use the exported ones.
const (
	noToken       = "missing"     // there is no token
	BadToken      = "invalid"     // it is not the right one, or not signed as it should be
	oldToken      = "expired"     // or not valid yet
	OtherToken    = "claims"      // it has another issuer, audience or other claim than it should
	NoKeys        = "issuer"      // the keys with which its issuer signs are not known
	noCertificate = "certificate" // the client has none, or one that is not accepted
	otherSpace    = "namespace"   // the client of a Unix socket is in another container or sandbox
	webPage       = "origin"      // a web page of another origin wants to connect
)

// counts are what happens to connections. Its zero value counts nothing.
type counts struct {
	connections, refusals, reloads *metrics.Counter

	complete atomic.Int64 // when settings were read again the last time without an error, in Unix seconds
}

// Measure adds metrics about connections to a set. It is called before the first connection.
func (c *Connections) Measure(set *metrics.Set) {
	reasons := []string{noToken, BadToken, oldToken, OtherToken, NoKeys, noCertificate, otherSpace, webPage}
	for _, r := range console.Reasons {
		reasons = append(reasons, consoleReason(r))
	}
	set.Gauge("tether_connections", "Connections that are open.", func() float64 { return float64(c.Open()) })
	c.counts.connections = set.Counter("tether_connections_total", "Connections that clients have asked for, by listener and outcome.",
		metrics.Label{Name: "listener", Values: []string{viaWS, viaWSS, viaUnix, viaConsole, viaInProcess, ViaFleet}},
		metrics.Label{Name: "outcome", Values: []string{served, tooMany, stopping, refused, malformed}})
	c.counts.refusals = set.Counter("tether_refusals_total", "Clients that may not connect, by reason.", metrics.Label{Name: "reason", Values: reasons})
	c.counts.reloads = set.Counter("tether_reloads_total", "Settings that were read again, by kind and outcome.",
		metrics.Label{Name: "settings", Values: wire.SettingsKinds}, metrics.Label{Name: "outcome", Values: []string{isChanged, isUnchanged, isRefused}})
	set.Gauge("tether_last_reload_time_seconds", "When settings were read again without an error, in Unix time; 0: never.", func() float64 { return float64(c.counts.complete.Load()) })
}

// What becomes of settings that are read again: the label outcome.
const (
	isChanged   = "changed"
	isUnchanged = "unchanged"
	isRefused   = "refused" // the earlier ones stay in force
)

// reloaded counts and logs what has become of settings that were read again.
func (c *Connections) reloaded(settings []wire.ReloadedSettings, log *slog.Logger) {
	complete := true
	for _, s := range settings {
		outcome := isUnchanged
		switch {
		case s.Error != "":
			outcome, complete = isRefused, false
			log.Error("settings cannot be used, the earlier ones stay in force", "settings", s.Kind, "err", s.Error)
		case s.Changed:
			outcome = isChanged
			log.Info("settings have changed", "settings", s.Kind)
		}
		if c.counts.reloads != nil {
			c.counts.reloads.Inc(s.Kind, outcome)
		}
	}
	if complete {
		c.counts.complete.Store(time.Now().Unix())
	}
}

// consoleReason is the reason of a browser that the console refuses.
func consoleReason(r console.Reason) string {
	return "console" + strings.ToUpper(string(r[:1])) + string(r[1:])
}

// count counts a connection.
func (c *counts) count(via, outcome string) {
	if c != nil && c.connections != nil {
		c.connections.Inc(via, outcome)
	}
}

// refuse counts a client that may not connect.
func (c *counts) refuse(via, reason string) {
	c.count(via, refused)
	if c != nil && c.refusals != nil {
		c.refusals.Inc(reason)
	}
}

// via returns the way by which connections to the listener come.
func (l *Listener) via() string {
	scheme, _, found := strings.Cut(l.URL, "://")
	if !found {
		return viaInProcess
	}
	return scheme
}

// httpErrors gets what the HTTP server has to say, a line at a time. Failed handshakes of TLS are nowhere else.
type httpErrors struct{ u *upgrader }

func (e httpErrors) logger() *log.Logger { return log.New(e, "", 0) }

func (e httpErrors) Write(line []byte) (int, error) {
	text := string(bytes.TrimSpace(line))
	_, failure, handshake := strings.Cut(text, "TLS handshake error from ")
	switch {
	case handshake && strings.Contains(failure, "certificate"):
		e.u.counts.refuse(e.u.via, noCertificate)
		e.u.logRefusal("client without an accepted certificate", "err", failure)
	case handshake:
		e.u.counts.count(e.u.via, malformed)
		fallthrough
	default:
		e.u.log.Debug(text)
	}
	return len(line), nil
}
