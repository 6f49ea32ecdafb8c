package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tetherexec/tether/internal/fleet"
)

// freePorts returns ports that were free a moment ago: the nodes of a cluster have to know each other's before they start. They are not
// among those that the system gives to others.
func freePorts(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for len(addresses) < n {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.N(10_000)))
		if err != nil {
			continue
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// openCluster starts three nodes with the same keys. trust is an option for their clients.
func openCluster(t *testing.T) (nodes []*Hub, addresses, urls []string, trust nats.Option) {
	t.Helper()
	addresses = freePorts(t, 3)
	cert, certKey := certificate(t, "127.0.0.1")
	first := t.TempDir()
	if _, err := OpenKeys(filepath.Join(first, keysDir)); err != nil {
		t.Fatal(err)
	}
	for i, address := range addresses {
		dir := first
		if i > 0 {
			dir = t.TempDir()
			if err := os.CopyFS(filepath.Join(dir, keysDir), os.DirFS(filepath.Join(first, keysDir))); err != nil {
				t.Fatal(err)
			}
		}
		h := openHub(t, func(c *Config) {
			c.Dir, c.Name, c.ClusterListen, c.TLSCert, c.TLSKey = dir, fmt.Sprintf("n%d", i), address, cert, certKey
			for j, peer := range addresses {
				if i != j {
					c.Peers = append(c.Peers, peer)
				}
			}
		})
		nodes, urls = append(nodes, h), append(urls, h.URL())
	}
	return nodes, addresses, urls, nats.RootCAs(cert)
}

// If one of three nodes dies, even the leader, the others go on with the directory. Nodes without the keys of the fleet are not let in. A
// revocation at one node reaches the others.
func TestCluster(t *testing.T) {
	t.Parallel()
	nodes, addresses, urls, trust := openCluster(t)
	stranger := openHub(t, func(c *Config) {
		c.Name, c.ClusterListen, c.Peers = "stranger", "127.0.0.1:0", addresses
	})
	creds := credentials(t, nodes[0].Keys(), RoleGateway, "gate")
	conn := connect(t, nodes[0], creds, trust, nats.MaxReconnects(-1), func(o *nats.Options) error { o.Servers = urls; o.Url = ""; return nil })
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	config := streamConfig(fleet.SessionsBucket)
	config.Replicas = len(nodes)
	eventually(t, "the cluster makes a stream", func(ctx context.Context) error { _, err := js.CreateStream(ctx, config); return err })
	write := func(value string) {
		eventually(t, "the directory can be written", func(ctx context.Context) error {
			_, err := js.Publish(ctx, fleet.KeySubject(fleet.SessionsBucket, "k"), []byte(value))
			return err
		})
	}
	write("1")
	ended := make(chan struct{}, 1)
	revoked := credentials(t, nodes[1].Keys(), RoleHost, self)
	connect(t, nodes[1], revoked, trust, nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { ended <- struct{}{} }))
	if err := nodes[2].Keys().Revoke(RoleHost, self); err != nil {
		t.Fatal(err)
	}
	await(t, "the client of another node is disconnected", ended)
	var leader string
	eventually(t, "the stream has a leader", func(ctx context.Context) error {
		s, err := js.Stream(ctx, config.Name)
		if err == nil {
			leader = s.CachedInfo().Cluster.Leader
		}
		return err
	})
	killed := slices.IndexFunc(nodes, func(h *Hub) bool { return h.current().Name() == leader })
	if killed < 0 {
		t.Fatalf("no node has the name %q", leader)
	}
	begin := time.Now()
	nodes[killed].Close()
	write("2")
	t.Log("writable again after", time.Since(begin))
	eventually(t, "the value can be read", func(ctx context.Context) error {
		s, err := js.Stream(ctx, config.Name)
		if err != nil {
			return err
		}
		m, err := s.GetLastMsgForSubject(ctx, fleet.KeySubject(fleet.SessionsBucket, "k"))
		if err == nil && string(m.Data) != "2" {
			err = fmt.Errorf("the value is %q", m.Data)
		}
		return err
	})
	for _, h := range slices.Delete(nodes, killed, killed+1) {
		eventually(t, "a node is healthy", func(context.Context) error { return h.Health() })
	}
	if n := stranger.Stats().Routes; n != 0 {
		t.Errorf("a node without the keys has %d routes", n)
	}
	// The directory of a stranger has no leader.
	if err := stranger.Health(); err == nil || !strings.Contains(err.Error(), "leader") {
		t.Error(err)
	}
}

// eventually repeats what can fail while a cluster elects a leader.
func eventually(t *testing.T, what string, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*testTime)
	defer cancel()
	for {
		attempt, done := context.WithTimeout(ctx, time.Second)
		err := f(attempt)
		done()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("does not happen: %s: %v", what, err)
		}
	}
}

// Two nodes with the same keys trust each other; a node with other keys is trusted in neither direction.
func TestClusterTLS(t *testing.T) {
	t.Parallel()
	k, err := OpenKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := OpenKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		server, client *Keys
		want           bool
	}{{k, k, true}, {k, foreign, false}, {foreign, k, false}} {
		if err := handshake(t, row.server, row.client); (err == nil) != row.want {
			t.Error(row.want, err)
		}
	}
}
