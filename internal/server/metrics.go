package server

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/tetherexec/tether/internal/launch"
)

// writeMetrics writes the server's counters in the text format of Prometheus.
func (s *Server) writeMetrics(w io.Writer) {
	sessions, running := 0, 0
	for _, one := range s.sessions.All() {
		sessions++
		running += one.Running()
	}
	metric := func(name, kind, help string) { fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	metric("tether_sessions", "gauge", "Sessions that are open.")
	fmt.Fprintf(w, "tether_sessions %d\n", sessions)
	metric("tether_processes_running", "gauge", "Processes that have not exited.")
	fmt.Fprintf(w, "tether_processes_running %d\n", running)

	metric("tether_network_decisions_total", "counter", "Decisions about hosts that processes tried to reach through a proxy of this server.")
	counts := s.decisions.Counts()
	outcomes := slices.SortedFunc(maps.Keys(counts), func(a, b launch.NetworkOutcome) int {
		return cmp.Or(cmp.Compare(a.Decision, b.Decision), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Source, b.Source))
	})
	for _, o := range outcomes {
		fmt.Fprintf(w, "tether_network_decisions_total{decision=%q,protocol=%q,source=%q} %d\n", o.Decision, o.Protocol, o.Source, counts[o])
	}
}
