package gateway

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/tetherexec/tether/internal/fleet/directory"
)

// counters are what the gateway has done.
type counters struct {
	up, down, refused atomic.Uint64
}

// writeMetrics writes the gateway's counters in the text format of Prometheus.
func (g *Gateway) writeMetrics(w io.Writer) {
	metric := func(name, kind, help string) { fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	metric("tether_gateway_links", "gauge", "Links to hosts, one for each connected client.")
	fmt.Fprintf(w, "tether_gateway_links %d\n", g.mux.Len())
	metric("tether_gateway_refused_total", "counter", "Clients that got no host.")
	fmt.Fprintf(w, "tether_gateway_refused_total %d\n", g.counts.refused.Load())
	metric("tether_gateway_bytes_total", "counter", "Bytes passed on, to hosts (up) and to clients (down).")
	fmt.Fprintf(w, "tether_gateway_bytes_total{direction=\"up\"} %d\n", g.counts.up.Load())
	fmt.Fprintf(w, "tether_gateway_bytes_total{direction=\"down\"} %d\n", g.counts.down.Load())
	states := map[directory.State]int{directory.Reachable: 0, directory.Unreachable: 0, directory.Draining: 0}
	for _, h := range g.hosts.All() {
		states[h.State]++
	}
	metric("tether_gateway_hosts", "gauge", "Hosts of the fleet, by state.")
	for _, state := range []directory.State{directory.Draining, directory.Reachable, directory.Unreachable} {
		fmt.Fprintf(w, "tether_gateway_hosts{state=%q} %d\n", state, states[state])
	}
	connected := 0
	if g.config.Bus.IsConnected() {
		connected = 1
	}
	metric("tether_gateway_hub_connected", "gauge", "1 if the gateway is connected to the hub.")
	fmt.Fprintf(w, "tether_gateway_hub_connected %d\n", connected)
}
