package fleettest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/hub"
)

// Nodes is how many nodes a cluster has.
const Nodes = 3

// A node is one hub of a cluster.
type node struct {
	config hub.Config
	hub    *hub.Hub
	routes [Nodes]*Relay // from the node to each other one
}

// StartCluster starts a hub of three nodes. Hosts and gateways connect to it through a relay, each connection to the next node.
func StartCluster(t testing.TB) *Fleet {
	t.Helper()
	f := &Fleet{t: t, dir: t.TempDir(), log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	addresses := freeAddresses(t, Nodes)
	var err error
	if f.Keys, err = hub.OpenKeys(filepath.Join(f.dir, "0", "keys")); err != nil {
		t.Fatal(err)
	}
	for i := range Nodes {
		n := &node{config: hub.Config{
			Dir: filepath.Join(f.dir, fmt.Sprint(i)), Listen: "127.0.0.1:0", Name: fmt.Sprint("node-", i), ClusterListen: addresses[i], Log: f.log.With("node", i),
		}}
		if i > 0 {
			if err := os.CopyFS(filepath.Join(n.config.Dir, "keys"), os.DirFS(filepath.Join(f.dir, "0", "keys"))); err != nil {
				t.Fatal(err)
			}
		}
		for j := range Nodes {
			if i != j {
				n.routes[j] = LayRelay(t, addresses[j])
				n.config.Peers = append(n.config.Peers, n.routes[j].Address())
			}
		}
		f.nodes = append(f.nodes, n)
	}
	var targets []string
	for _, n := range f.nodes {
		if n.hub, err = openHub(n.config); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.hub.Close() })
		n.config.Listen = n.hub.Addr().String()
		targets = append(targets, n.config.Listen)
	}
	f.front = LayRelay(t, targets...)
	for i := range f.nodes {
		if err := f.awaitHealthy(i); err != nil {
			t.Fatal(err)
		}
	}
	f.makeDirectory()
	f.checkCopies()
	return f
}

// checkCopies checks that each node has a copy of the directory: else the death of a node would prove little.
func (f *Fleet) checkCopies() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	js, err := jetstream.New(f.Connect(hub.RoleGateway, "checker", ""))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, bucket := range []string{fleet.HostsBucket, fleet.SessionsBucket, fleet.DrainsBucket} {
		s, err := js.Stream(ctx, fleet.Stream(bucket))
		if err != nil {
			f.t.Fatal(err)
		}
		if n := s.CachedInfo().Config.Replicas; n != Nodes {
			f.t.Fatalf("the bucket %s has %d copies", bucket, n)
		}
	}
}

// freeAddresses returns addresses whose ports were free a moment ago: nodes have to know each other's before they start. They are not among
// those that the system gives to others.
func freeAddresses(t testing.TB, n int) (addresses []string) {
	t.Helper()
	for tries := 0; len(addresses) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.N(10_000)))
		if err != nil {
			if tries > 100 {
				t.Fatal(err)
			}
			continue
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// KillNode ends a node of the cluster as if its machine had lost its power: it sends no goodbye to its peers.
func (f *Fleet) KillNode(i int) {
	f.separate(i, true)
	f.front.CutTo(f.nodes[i].config.Listen)
	f.nodes[i].hub.Close()
}

// RestartNode starts a node again, and waits until it serves the directory.
func (f *Fleet) RestartNode(i int) error {
	f.separate(i, false)
	h, err := openHub(f.nodes[i].config)
	if err != nil {
		return err
	}
	f.nodes[i].hub = h
	return f.awaitHealthy(i)
}

// separate cuts a node off from the others, or ends that.
func (f *Fleet) separate(i int, away bool) {
	for j, n := range f.nodes {
		if j != i {
			n.routes[i].SetAway(away)
			f.nodes[i].routes[j].SetAway(away)
		}
	}
}

func (f *Fleet) awaitHealthy(i int) (err error) {
	for deadline := time.Now().Add(2 * Patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = f.nodes[i].hub.Health(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("node %d of the hub does not become healthy: %w", i, err)
}

// openHub opens a hub. A command that a host in this process is just starting has the lock of a hub that was closed, until it runs its program.
func openHub(c hub.Config) (h *hub.Hub, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	err = hub.ErrInUse
	for errors.Is(err, hub.ErrInUse) && ctx.Err() == nil {
		h, err = hub.Open(ctx, c)
	}
	return h, err
}
