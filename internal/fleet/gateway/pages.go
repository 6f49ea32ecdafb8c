package gateway

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/wire"
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

// hostsPage returns the hosts of the fleet, for clients.
func (g *Gateway) hostsPage() any {
	page := wire.FleetHosts{Hosts: []wire.FleetHost{}}
	for _, h := range g.hosts.All() {
		page.Hosts = append(page.Hosts, wire.FleetHost{
			Name: h.Name, State: string(h.State), Labels: append([]string{}, h.Labels...), Running: h.Running, Capacity: h.Capacity,
			Sessions: h.Sessions, Load: h.Load, Version: h.Version, Sandbox: h.Sandbox,
		})
	}
	return page
}

// ready returns why clients should connect through another gateway; nil: they should not.
func (g *Gateway) ready() error {
	select {
	case <-g.hosts.Loaded():
	default:
		return errors.New("the hosts of the fleet are not known yet")
	}
	if !g.config.Bus.IsConnected() {
		return errors.New("the gateway is not connected to the hub")
	}
	return nil
}
