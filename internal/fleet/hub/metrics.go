package hub

import (
	"errors"
	"fmt"
	"io"

	"github.com/nats-io/nats-server/v2/server"
)

// Stats are what a hub does.
type Stats struct {
	Connections   int
	Subscriptions int
	Routes        int    // connections to other nodes; there are several to each
	SlowConsumers int64  // clients that were disconnected because they did not read fast enough, since the start
	JetStream     bool   // the directory can be used at this node
	Leader        string // of the cluster; this node, if there is none; "": not known
	StoreBytes    uint64 // of the directory
	StoreLimit    int64
	Messages      uint64 // in the directory
	APIErrors     uint64 // requests about the directory that were refused
}

// Stats returns what the hub does.
func (h *Hub) Stats() Stats {
	srv := h.current()
	s := Stats{
		Connections: srv.NumClients(), Subscriptions: int(srv.NumSubscriptions()), Routes: srv.NumRoutes(),
		SlowConsumers: srv.NumSlowConsumers(), JetStream: storeError(srv) == nil,
	}
	info, err := srv.Jsz(&server.JSzOptions{})
	if err != nil || info.Disabled {
		return s
	}
	s.StoreBytes, s.StoreLimit, s.Messages, s.APIErrors = info.Store, info.Config.MaxStore, info.Messages, info.API.Errors
	switch {
	case h.config.ClusterListen == "":
		s.Leader = srv.Name()
	case info.Meta != nil:
		s.Leader = info.Meta.Leader
	}
	return s
}

// Health returns why the hub does not serve; nil: it does.
func (h *Hub) Health() error {
	s := h.Stats()
	switch {
	case !h.current().Running():
		return errors.New("the hub has stopped")
	case !s.JetStream:
		return fmt.Errorf("the directory cannot be written: %w", storeError(h.current()))
	case s.Leader == "":
		return errors.New("the cluster has no leader: most of its nodes are away")
	}
	return nil
}

// WriteMetrics writes the Stats in the text format of Prometheus.
func (h *Hub) WriteMetrics(w io.Writer) {
	s := h.Stats()
	metric := func(name, kind, help string, value any) {
		fmt.Fprintf(w, "# HELP tether_hub_%s %s\n# TYPE tether_hub_%s %s\ntether_hub_%s %v\n", name, help, name, kind, name, value)
	}
	number := map[bool]int{true: 1}
	metric("connections", "gauge", "Hosts, gateways and operators that are connected to this node.", s.Connections)
	metric("subscriptions", "gauge", "Subscriptions at this node.", s.Subscriptions)
	metric("routes", "gauge", "Connections to other nodes of the cluster.", s.Routes)
	metric("slow_consumers_total", "counter", "Clients that were disconnected because they did not read fast enough.", s.SlowConsumers)
	metric("directory_available", "gauge", "Whether the directory can be used at this node.", number[s.JetStream])
	metric("leader_known", "gauge", "Whether the cluster has a leader; always 1 without a cluster.", number[s.Leader != ""])
	metric("directory_bytes", "gauge", "Size of the directory on the disk of this node.", s.StoreBytes)
	metric("directory_bytes_limit", "gauge", "Limit of the size of the directory.", s.StoreLimit)
	metric("directory_messages", "gauge", "Entries of the directory at this node.", s.Messages)
	metric("directory_errors_total", "counter", "Requests about the directory that were refused.", s.APIErrors)
}
