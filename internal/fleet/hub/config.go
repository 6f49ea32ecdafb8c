package hub

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
)

const (
	// DefaultStoreLimit is the most bytes of the directory on disk. A session takes about 0.5 KB.
	DefaultStoreLimit = 1 << 30

	// memoryLimit is the most bytes of JetStream in memory. The fleet has no stream there.
	memoryLimit = 64 << 20

	// maxConnections limits the clients: hosts, gateways and operators.
	maxConnections = 64 << 10

	// maxPayload is the largest message.
	maxPayload = 1 << 20

	// maxPending is how many bytes may wait for one client before it is disconnected. All links of a gateway together may have
	// more on the way; then the gateway reconnects, and the clients resume.
	maxPending = 256 << 20

	// writeTime is how long a client may take to accept a message before it is disconnected.
	writeTime = 10 * time.Second

	// pingInterval and maxPings decide how soon a client that is gone without a word is forgotten: after 30 s.
	pingInterval = 10 * time.Second
	maxPings     = 2

	// handshakeTime is how long a client may take to say who it is, and to agree on encryption before that.
	handshakeTime = 5 * time.Second

	// syncInterval is how much of the directory may be lost if the machine loses its power. If only the hub dies, nothing is.
	syncInterval = time.Second

	// closedClients is how many clients that have left the monitoring page shows.
	closedClients = 256

	clusterName = "tether"
)

// Config says where a hub listens and where it stores the directory.
type Config struct {
	Dir           string // the state directory of the hub: its keys are in keys/, the directory of the fleet in jetstream/
	Listen        string // IP:PORT for executors and gateways; port 0: any that is free
	WebSocket     string // IP:PORT for the same over WebSocket; "": not served
	TLSCert       string // PEM files of certificate and private key; "": only loopback addresses are served
	TLSKey        string
	Name          string   // of this node, if there is a cluster
	ClusterListen string   // IP:PORT for the other nodes; "": there is no cluster
	Peers         []string // HOST:PORT of the other nodes
	StoreLimit    int64    // most bytes of the directory on disk; 0: DefaultStoreLimit
	Monitor       string   // loopback IP:PORT for the monitoring pages of NATS; "": not served
	Log           *slog.Logger
}

// ErrExposed means that an address can be reached from other machines without encryption.
var ErrExposed = errors.New("without TLS: every machine on the way could read and change what the fleet does")

// Check checks what can be checked without I/O.
func (c Config) Check() error {
	if c.Dir == "" {
		return errors.New("a hub needs a directory")
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("TLS needs a certificate and its private key")
	}
	if c.StoreLimit < 0 {
		return errors.New("the limit of the directory is negative")
	}
	for _, address := range []string{c.Listen, c.WebSocket} {
		addr, err := parseAddress(address)
		switch {
		case address == "" && address == c.WebSocket:
		case err != nil:
			return err
		case c.TLSCert == "" && !addr.Addr().Unmap().IsLoopback():
			return fmt.Errorf("refusing to listen on `%s` %w", address, ErrExposed)
		}
	}
	if c.Monitor != "" {
		if addr, err := parseAddress(c.Monitor); err != nil {
			return err
		} else if !addr.Addr().Unmap().IsLoopback() {
			return fmt.Errorf("refusing to listen on `%s`: the monitoring pages have no authentication; use a loopback address", c.Monitor)
		}
	}
	return c.checkCluster()
}

func (c Config) checkCluster() error {
	if c.ClusterListen == "" {
		if len(c.Peers) > 0 {
			return errors.New("a cluster needs an address for the other nodes")
		}
		return nil
	}
	if _, err := parseAddress(c.ClusterListen); err != nil {
		return err
	}
	if c.Name == "" {
		return errors.New("each node of a cluster needs a name of its own")
	}
	if len(c.Peers) == 0 {
		return errors.New("each node of a cluster needs the addresses of the others")
	}
	for _, peer := range c.Peers {
		host, port, err := net.SplitHostPort(peer)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || perr != nil || n == 0 {
			return fmt.Errorf("`%s` is not the address of a node: use HOST:PORT", peer)
		}
	}
	return nil
}

func parseAddress(text string) (netip.AddrPort, error) {
	addr, err := netip.ParseAddrPort(text)
	if err != nil {
		return addr, fmt.Errorf("`%s` is not an address to listen on: use IP:PORT", text)
	}
	return addr, nil
}

// bind returns host and port as the server wants them. The address was checked.
func bind(address string) (host string, port int) {
	addr := netip.MustParseAddrPort(address)
	if addr.Port() == 0 {
		return addr.Addr().String(), server.RANDOM_PORT
	}
	return addr.Addr().String(), int(addr.Port())
}

// options returns the options of the server.
func (c Config) options(k *Keys, resolver server.AccountResolver) (*server.Options, error) {
	operator, err := k.operatorClaims()
	if err != nil {
		return nil, err
	}
	o := &server.Options{
		ServerName: c.Name, NoSigs: true, DisableJetStreamBanner: true,
		MaxConn: maxConnections, MaxPayload: maxPayload, MaxPending: maxPending, WriteDeadline: writeTime,
		PingInterval: pingInterval, MaxPingsOut: maxPings, MaxClosedClients: closedClients,
		AuthTimeout: handshakeTime.Seconds(), TLSTimeout: handshakeTime.Seconds(),
		TrustedOperators: []*jwt.OperatorClaims{operator}, SystemAccount: public(k.system), AccountResolver: resolver,
		JetStream: true, StoreDir: filepath.Join(c.Dir, storeDir), SyncInterval: syncInterval,
		JetStreamMaxMemory: memoryLimit, JetStreamMaxStore: cmp.Or(c.StoreLimit, DefaultStoreLimit),
	}
	o.Host, o.Port = bind(c.Listen)
	if c.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("the certificate %s and the private key %s cannot be used: %w", c.TLSCert, c.TLSKey, err)
		}
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	}
	if c.WebSocket != "" {
		o.Websocket = server.WebsocketOpts{NoTLS: o.TLSConfig == nil, TLSConfig: o.TLSConfig, SameOrigin: true, HandshakeTimeout: handshakeTime, AuthTimeout: handshakeTime.Seconds()}
		o.Websocket.Host, o.Websocket.Port = bind(c.WebSocket)
	}
	if c.Monitor != "" {
		o.HTTPHost, o.HTTPPort = bind(c.Monitor)
	}
	return o, c.clusterOptions(k, o)
}

// clusterOptions adds the options of a node.
func (c Config) clusterOptions(k *Keys, o *server.Options) (err error) {
	if c.ClusterListen == "" {
		return nil
	}
	o.Cluster = server.ClusterOpts{Name: clusterName, NoAdvertise: true, PingInterval: pingInterval, MaxPingsOut: maxPings, TLSTimeout: handshakeTime.Seconds()}
	o.Cluster.Host, o.Cluster.Port = bind(c.ClusterListen)
	if o.Cluster.TLSConfig, err = k.clusterTLS(); err != nil {
		return err
	}
	for _, peer := range c.Peers {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: peer})
	}
	return nil
}
