//go:build fleet

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/statedir"
)

// run runs a hub until a signal ends it.
func (f *hubFlags) run(ctx context.Context, stdout *os.File, stderr io.Writer) error {
	prepareRelay()
	defer f.log.close()
	cfg, err := f.config(stderr)
	if err != nil {
		return err
	}
	if done, err := f.file.done(stdout); done || err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	h, err := hub.Open(ctx, cfg)
	if err != nil {
		return withHubFlags(err)
	}
	defer h.Close()
	if f.metrics != "" {
		stopMetrics, err := f.serveMetrics(ctx, h)
		if err != nil {
			return err
		}
		defer stopMetrics()
	}
	if _, err := fmt.Fprintln(stdout, h.URL()); err != nil {
		return fmt.Errorf("print URL: %w", err)
	}
	<-ctx.Done()
	return nil
}

// metricsTime limits one request for metrics.
const metricsTime = 10 * time.Second

// serveMetrics serves the pages of --metrics until stop is called.
func (f *hubFlags) serveMetrics(ctx context.Context, h *hub.Hub) (stop func(), err error) {
	address, err := netip.ParseAddrPort(f.metrics)
	if err != nil {
		return nil, usageError{fmt.Errorf("invalid --metrics %q: expected IP:PORT", f.metrics)}
	}
	if f.tlsCert == "" && !address.Addr().Unmap().IsLoopback() {
		return nil, fmt.Errorf("refusing --metrics %s without encryption: add --tls-cert and --tls-key, or use 127.0.0.1", f.metrics)
	}
	pages := http.NewServeMux()
	pages.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		h.WriteMetrics(w)
	})
	health := func(w http.ResponseWriter, _ *http.Request) {
		if err := h.Health(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
	pages.HandleFunc("GET /healthz", health)
	pages.HandleFunc("GET /readyz", health) // gateways and servers have it, too
	server := &http.Server{Handler: pages, ReadTimeout: metricsTime, WriteTimeout: metricsTime, ErrorLog: log.New(io.Discard, "", 0)}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.metrics)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { // ends with Close
		if f.tlsCert == "" {
			_ = server.Serve(l)
		} else {
			_ = server.ServeTLS(l, f.tlsCert, f.tlsKey)
		}
	})
	return func() {
		server.Close()
		serving.Wait()
	}, nil
}

// config turns the flags into the settings of a hub.
func (f *hubFlags) config(stderr io.Writer) (cfg hub.Config, err error) {
	cfg = hub.Config{
		TLSCert: f.tlsCert, TLSKey: f.tlsKey, ClusterListen: f.clusterListen, Peers: f.peers,
		StoreLimit: int64(f.storeLimit), Monitor: f.monitor, Log: f.log.open(stderr),
	}
	if cfg.Dir, err = hubDir(f.stateDir); err != nil {
		return cfg, err
	}
	encrypted := f.tlsCert != ""
	if cfg.Listen, err = hubAddress("--listen", f.listen, "nats", "tls", encrypted); err != nil {
		return cfg, err
	}
	if f.webSocket != "" {
		if cfg.WebSocket, err = hubAddress("--websocket", f.webSocket, "ws", "wss", encrypted); err != nil {
			return cfg, err
		}
	}
	if cfg.Name = f.name; cfg.Name == "" && cfg.ClusterListen != "" {
		if cfg.Name, err = machineName(); err != nil {
			return cfg, fmt.Errorf("--name is missing: %w", err)
		}
	}
	if encrypted {
		warnReadable(stderr, f.tlsKey)
	}
	return cfg, withHubFlags(cfg.Check())
}

// hubAddress returns the IP:PORT of a URL to listen on.
func hubAddress(flag, text, plain, secure string, encrypted bool) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != plain && u.Scheme != secure || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		return "", usageError{fmt.Errorf("invalid %s %q: expected %s://IP:PORT, or %s://127.0.0.1:PORT", flag, text, secure, plain)}
	case u.Scheme == secure && !encrypted:
		return "", usageError{fmt.Errorf("%s %s needs --tls-cert and --tls-key", flag, text)}
	case u.Scheme == plain && encrypted:
		return "", usageError{fmt.Errorf("with --tls-cert, %s must begin with %s://, not %s://", flag, secure, plain)}
	}
	return u.Host, nil
}

// withHubFlags adds to an error which flags help.
func withHubFlags(err error) error {
	switch {
	case errors.Is(err, hub.ErrExposed):
		return fmt.Errorf("%w. Add --tls-cert and --tls-key, or listen on 127.0.0.1", err)
	case errors.Is(err, hub.ErrInUse):
		return fmt.Errorf("%w; give this one another directory with --state-dir", err)
	}
	return err
}

// hubDir is the state directory of a hub.
func hubDir(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	dir, err := statedir.Default()
	if err != nil {
		return "", withStateDirFlag(err)
	}
	return filepath.Join(dir, "hub"), nil
}

// openKeys opens the keys of the hub in a state directory; it makes them if there are none, so that credentials can be made before the
// first start of the hub.
func openKeys(stateDir string) (*hub.Keys, error) {
	dir, err := hubDir(stateDir)
	if err != nil {
		return nil, err
	}
	return hub.OpenKeys(filepath.Join(dir, "keys"))
}

var hubRoles = map[string]hub.Role{"host": hub.RoleHost, "gateway": hub.RoleGateway, "operator": hub.RoleOperator}

// run makes the credentials.
func (a *hubAdd) run(stdout *os.File) error {
	keys, err := openKeys(a.stateDir)
	if err != nil {
		return err
	}
	text, err := keys.Credentials(hubRoles[a.role], a.name)
	if err != nil {
		return err
	}
	if a.file == "" {
		_, err = stdout.Write(text)
		return err
	}
	if err := writeSecret(a.file, a.force, text); err != nil {
		return fmt.Errorf("write credentials %s: %w", a.file, err)
	}
	return nil
}

// run makes the credentials invalid.
func (r *hubRevoke) run(stdout io.Writer) error {
	keys, err := openKeys(r.stateDir)
	if err != nil {
		return err
	}
	if err := keys.Revoke(hubRoles[r.role], r.name); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "the credentials of %s %s are no longer valid\n", r.role, r.name)
	return err
}
