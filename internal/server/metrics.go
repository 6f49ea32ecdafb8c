package server

import (
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/metrics"
	"github.com/tetherexec/tether/internal/session"
)

// counters are what the server counts. They begin at 0 with each worker.
type counters struct {
	set      metrics.Set
	sessions *metrics.Counter
	starts   *metrics.Counter
	exits    *metrics.Counter
	denials  *metrics.Counter
	took     *metrics.Histogram
	confined *metrics.Histogram
	requests [2][]*atomic.Uint64 // all and those that have failed, by method.number
}

// The values of the label sandbox.
const (
	unconfined = "none"
	isConfined = "confined"
)

// startBounds are the buckets of durations of starts: from a fork without load to one on a machine that hangs.
var startBounds = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second, 30 * time.Second,
}

// count makes the metrics of a server. docs/operations.md lists them.
func (s *Server) count() {
	c := &s.counters
	set := &c.set
	set.Fact("tether_build_info", "The version of tether and of the Go toolchain.", "version", s.config.Version, "go", runtime.Version())
	s.conns.Measure(set)
	set.Gauge("tether_sessions", "Sessions that are open.", func() float64 { n, _ := s.Load(); return float64(n) })
	set.Gauge("tether_sessions_attached", "Sessions with a connected client.", func() float64 { return float64(s.sessions.Attached()) })
	set.Gauge("tether_connections_slow", "Connections whose client has not taken a message for at least ten seconds.", func() float64 { return float64(s.slow()) })
	c.sessions = set.Counter("tether_session_events_total", "What has happened to sessions.", metrics.Label{Name: "event", Values: eventNames()})
	set.Gauge("tether_processes_running", "Processes that have not exited.", func() float64 { _, n := s.Load(); return float64(n) })
	set.Gauge("tether_processes_blocked", "Processes that wait because their output is not read.", func() float64 { return float64(s.sessions.Output().Blocked) })
	c.starts = set.Counter("tether_starts_total", "Starts of processes, by sandbox and outcome.",
		metrics.Label{Name: "sandbox", Values: []string{unconfined, isConfined}}, metrics.Label{Name: "outcome", Values: []string{"started", "failed"}})
	c.took = set.Histogram("tether_start_seconds", "Time from the request for a start until the program is executed.", startBounds...)
	c.confined = set.Histogram("tether_confined_start_seconds", "The same for processes in a sandbox, with the time to make it.", startBounds...)
	c.exits = set.Counter("tether_exits_total", "Exits of processes.", metrics.Label{Name: "kind", Values: session.ExitKinds})
	c.denials = set.Counter("tether_sandbox_denials_total", "Processes whose failure the sandbox has probably caused.", metrics.Label{Name: "details", Values: []string{"known", "unknown"}})
	set.Sum("tether_output_bytes_total", "Output of processes.", func() float64 { return float64(s.sessions.Output().Bytes) })
	set.Gauge("tether_output_held_bytes", "Output that is kept, with its overhead.", func() float64 { return float64(s.sessions.Output().Held) })
	set.Gauge("tether_spool_bytes", "The part of it that is on disk.", func() float64 { return float64(s.sessions.Output().Spooled) })
	c.countRequests()
	set.Gauge("tether_forward_listeners", "Ports on which the server listens for clients.", func() float64 { return float64(s.ports.Listeners()) })
	set.Gauge("tether_forwarded_connections", "Forwarded connections that their clients have not closed.", func() float64 { return float64(s.ports.Open()) })
	set.Sum("tether_audit_dropped_total", "Lines that the audit log has lost.", func() float64 { return float64(s.audit.Dropped()) })
	set.Sum("tether_log_dropped_total", "Lines that the log has lost.", func() float64 {
		if s.config.LogDropped == nil {
			return 0
		}
		return float64(s.config.LogDropped())
	})
	spans := func() (exported, dropped uint64) {
		if s.config.Spans == nil {
			return 0, 0
		}
		return s.config.Spans.Counts()
	}
	set.Sum("tether_spans_exported_total", "Spans that the collector has taken.", func() float64 { n, _ := spans(); return float64(n) })
	set.Sum("tether_spans_dropped_total", "Spans that were dropped, because the collector does not take them.", func() float64 { _, n := spans(); return float64(n) })
	set.Gauge("tether_goroutines", "Goroutines of the server.", func() float64 { return float64(runtime.NumGoroutine()) })
	set.Gauge("tether_open_descriptors", "Descriptors of the server; 0: not known.", func() float64 { return float64(openDescriptors()) })
}

func (c *counters) countRequests() {
	names := methodNames()
	method := metrics.Label{Name: "method", Values: names}
	for i, counter := range []*metrics.Counter{
		c.set.Counter("tether_requests_total", "Requests with valid parameters, by method.", method),
		c.set.Counter("tether_requests_failed_total", "Those of them that were answered with an error.", method),
	} {
		for _, name := range names {
			c.requests[i] = append(c.requests[i], counter.Of(name))
		}
	}
}

// methodNames numbers the methods after the handshake, and returns their names in that order.
var methodNames = sync.OnceValue(func() []string {
	names := slices.Sorted(maps.Keys(methods))
	for i, name := range names {
		methods[name].number = i
	}
	return names
})

func eventNames() (names []string) {
	for e := session.Opened; e <= session.Ended; e++ {
		names = append(names, e.String())
	}
	return names
}

// events counts what happens to sessions and processes.
func (s *Server) events() session.Events {
	c := &s.counters
	return session.Events{
		Session: func(e session.SessionEvent, of *session.Session) {
			c.sessions.Inc(e.String())
			if e == session.Ended {
				s.logSessionEnd(of)
			}
			if name := sessionEvents[e]; name != "" {
				s.record(of, audit.Event{Event: name})
			}
			if told := s.sessionEnd.Load(); told != nil && e == session.Ended {
				(*told)(of.ID)
			}
		},
		Decision: s.recordDecision,
		Start: func(p *session.Process, took time.Duration, err error) {
			sandbox := unconfined
			if p.Command.Confined() {
				sandbox = isConfined
			}
			if err != nil {
				c.starts.Inc(sandbox, "failed")
				return
			}
			c.starts.Inc(sandbox, "started")
			c.took.Observe(took)
			if sandbox == isConfined {
				c.confined.Observe(took)
			}
		},
		Exit: func(p *session.Process, code int) {
			kind := p.ExitKind(code)
			c.exits.Inc(kind)
			s.logExit(p, code, kind)
			s.auditedExit(p, code, kind)
			if t := p.Command.Trace; t != nil && t.Life != nil {
				t.Life.End(p.Owner().Public, shortened(p.ID), shortened(p.Program()), kind, code)
			}
			switch d := p.Command.Denial(); {
			case d.Fact != nil:
				c.denials.Inc("known")
			case d.Denied:
				c.denials.Inc("unknown")
			}
		},
	}
}

// openDescriptors is the number of descriptors of this process, where the system tells.
func openDescriptors() int {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return max(0, len(names)-1) // without dir itself
}

// Load is how many sessions the server has, and how many of their processes have not exited.
func (s *Server) Load() (sessions, running int) { return s.sessions.Load() }

// SessionIDs are the ids of all sessions, also of those that are set aside. They are secrets.
func (s *Server) SessionIDs() []string { return s.sessions.IDs() }

// slow is how many clients do not take what the server writes.
func (s *Server) slow() (n int) {
	for _, c := range s.draining.all() {
		if c.rpc.Slow() {
			n++
		}
	}
	return n
}

// Sandbox says which backend confines commands here, see confine.Confiner.Verdict.
func (s *Server) Sandbox() string { return s.confiner.Verdict() }

// writeMetrics writes the server's metrics in the text format of Prometheus.
func (s *Server) writeMetrics(w io.Writer) {
	s.counters.set.Write(w)
	const name = "tether_network_decisions_total"
	fmt.Fprintf(w, "# HELP %s Decisions about hosts that processes tried to reach through a proxy of this server.\n# TYPE %[1]s counter\n", name)
	var lines []string
	for o, n := range s.decisions.Counts() {
		lines = append(lines, fmt.Sprintf("%s{decision=%q,protocol=%q,source=%q} %d\n", name, o.Decision, o.Protocol, o.Source, n))
	}
	slices.Sort(lines)
	io.WriteString(w, strings.Join(lines, ""))
}
