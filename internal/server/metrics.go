package server

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Load is how many sessions the server has, and how many of their processes have not exited.
func (s *Server) Load() (sessions, running int) { return s.sessions.Load() }

// Sandbox says which backend confines commands here, see confine.Confiner.Verdict.
func (s *Server) Sandbox() string { return s.confiner.Verdict() }

// writeMetrics writes the server's counters in the text format of Prometheus.
func (s *Server) writeMetrics(w io.Writer) {
	sessions, running := s.Load()
	metric := func(name, kind, help string) { fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	metric("tether_sessions", "gauge", "Sessions that are open.")
	fmt.Fprintf(w, "tether_sessions %d\n", sessions)
	metric("tether_processes_running", "gauge", "Processes that have not exited.")
	fmt.Fprintf(w, "tether_processes_running %d\n", running)

	metric("tether_network_decisions_total", "counter", "Decisions about hosts that processes tried to reach through a proxy of this server.")
	counts := s.decisions.Counts()
	var lines []string
	for o, n := range counts {
		lines = append(lines, fmt.Sprintf("tether_network_decisions_total{decision=%q,protocol=%q,source=%q} %d\n", o.Decision, o.Protocol, o.Source, n))
	}
	slices.Sort(lines)
	io.WriteString(w, strings.Join(lines, ""))
}
