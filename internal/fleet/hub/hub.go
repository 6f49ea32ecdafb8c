package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/tetherexec/tether/internal/filelock"
)

// Names in the directory of a hub.
const (
	keysDir  = "keys"
	storeDir = "jetstream"
	hubLock  = "hub.lock"
)

const (
	// readyTime is how long a hub may take until it accepts clients. It reads the directory of the fleet first.
	readyTime = time.Minute

	readyStep = 100 * time.Millisecond

	// revocationsInterval is how often a hub looks for new revocations.
	revocationsInterval = time.Second
)

// ErrInUse means that another hub uses the directory.
var ErrInUse = errors.New("another hub uses the directory")

// A Hub is a running server.
type Hub struct {
	config   Config
	log      *slog.Logger
	keys     *Keys
	resolver *server.MemAccResolver
	lock     *os.File
	ws       string // the URL for WebSocket

	stop   context.CancelFunc
	tasks  sync.WaitGroup
	closed sync.Once

	mu     sync.Mutex
	server *server.Server // replaced after an error of the disk
}

func (h *Hub) current() *server.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server
}

// Open starts a hub. When it returns, clients can connect; in a cluster there may be no leader yet.
func Open(ctx context.Context, c Config) (*Hub, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	h := &Hub{config: c, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)), resolver: &server.MemAccResolver{}}
	if err := h.open(ctx); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Hub) open(ctx context.Context) (err error) {
	dir := h.config.Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the hub: %w", err)
	}
	if h.lock, err = lock(filepath.Join(dir, hubLock)); err != nil {
		return fmt.Errorf("open the hub in %s: %w", dir, err)
	}
	if h.keys, err = OpenKeys(filepath.Join(dir, keysDir)); err != nil {
		return err
	}
	if err := h.loadAccounts(); err != nil {
		return err
	}
	if err := h.start(ctx); err != nil {
		return err
	}
	h.pin()
	following, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.tasks.Go(func() { h.followRevocations(following) }) // ends with Close
	h.tasks.Go(func() { h.repair(following) })            // the same
	if h.config.ClusterListen == "" {
		return nil
	}
	if err := h.share(following); err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	return nil
}

// lock locks a file. The lock ends when the file is closed.
func lock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = filelock.Try(int(f.Fd()), filelock.Exclusive); err == nil {
		return f, nil
	}
	if errors.Is(err, filelock.ErrHeld) {
		err = ErrInUse
	}
	return nil, errors.Join(err, f.Close())
}

// start starts a server, and waits until it accepts clients.
func (h *Hub) start(ctx context.Context) error {
	options, err := h.config.options(h.keys, h.resolver)
	if err != nil {
		return err
	}
	s, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	h.mu.Lock()
	h.server = s
	h.mu.Unlock()
	log := newLogger(h.log)
	s.SetLoggerV2(log, false, false, false)
	if err := h.awaitReady(ctx, s, log); err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	return nil
}

func (h *Hub) awaitReady(ctx context.Context, s *server.Server, log *logger) error {
	started := make(chan struct{})
	h.tasks.Go(func() { // ends when the server has started, or has failed
		defer close(started)
		s.Start()
	})
	select {
	case <-started:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for deadline := time.Now().Add(readyTime); ; {
		select {
		case err := <-log.fatal:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		if s.ReadyForConnections(readyStep) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("it does not get ready to accept clients")
		}
	}
}

// pin keeps the ports that the system has chosen, for a server that is started again.
func (h *Hub) pin() {
	c := &h.config
	c.Listen = h.server.Addr().String()
	if c.WebSocket != "" {
		h.ws = h.server.WebsocketURL()
		_, c.WebSocket, _ = strings.Cut(h.ws, "://")
	}
	if c.ClusterListen != "" {
		c.ClusterListen = h.server.ClusterAddr().String()
	}
	if c.Monitor != "" {
		c.Monitor = h.server.MonitorAddr().String()
	}
}

// loadAccounts gives the server the certificates of the accounts.
func (h *Hub) loadAccounts() error {
	system, err := h.keys.systemJWT()
	if err != nil {
		return err
	}
	claims, err := h.keys.readAccount()
	if err != nil {
		return err
	}
	account, err := claims.Encode(h.keys.operator)
	return errors.Join(err, h.resolver.Store(public(h.keys.system), system), h.resolver.Store(public(h.keys.account), account))
}

// followRevocations reads the revocations again when their file changes, until ctx ends.
func (h *Hub) followRevocations(ctx context.Context) {
	tick := time.NewTicker(revocationsInterval)
	defer tick.Stop()
	known, failed := "", ""
	for {
		text, err := h.keys.readRevocations()
		if err == nil && text != known {
			if err = h.revoke(text); err == nil {
				known, failed = text, ""
			}
		}
		if err != nil && err.Error() != failed {
			failed = err.Error()
			h.log.Error("new revocations have no effect yet", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// revoke gives the running server new revocations. It disconnects the clients.
func (h *Hub) revoke(text string) error {
	claims, err := h.keys.parseAccount(text)
	if err != nil {
		return err
	}
	encoded, err := claims.Encode(h.keys.operator)
	if err == nil {
		err = h.resolver.Store(claims.Subject, encoded) // for a server that is started again
	}
	if err != nil {
		return err
	}
	s := h.current()
	account, err := s.LookupAccount(claims.Subject)
	if err == nil {
		s.UpdateAccountClaims(account, claims)
	}
	return err
}

// URL is where clients connect.
func (h *Hub) URL() string {
	scheme := "nats"
	if h.config.TLSCert != "" {
		scheme = "tls"
	}
	return scheme + "://" + h.Addr().String()
}

// Addr is the address for clients.
func (h *Hub) Addr() net.Addr { return tcpAddr(h.config.Listen) }

// WebSocketURL is where clients connect over WebSocket; "": that is not served.
func (h *Hub) WebSocketURL() string { return h.ws }

// ClusterAddr is the address for other nodes; nil: there is no cluster.
func (h *Hub) ClusterAddr() net.Addr {
	if h.config.ClusterListen == "" {
		return nil
	}
	return tcpAddr(h.config.ClusterListen)
}

// tcpAddr returns an address that is known to be one.
func tcpAddr(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }

// Keys are the keys of the fleet.
func (h *Hub) Keys() *Keys { return h.keys }

// Close stops the hub. It returns when all of it has ended.
func (h *Hub) Close() {
	h.closed.Do(func() {
		if h.stop != nil {
			h.stop()
		}
		h.tasks.Wait() // from now on no server is started
		if s := h.current(); s != nil {
			s.Shutdown()
			s.WaitForShutdown()
		}
		if h.lock != nil {
			h.lock.Close()
		}
	})
}
