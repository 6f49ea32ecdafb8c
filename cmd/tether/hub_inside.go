//go:build fleet

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/statedir"
)

// run runs a hub until a signal ends it.
func (f *hubFlags) run(ctx context.Context, stdout *os.File, stderr io.Writer) error {
	prepareRelay()
	cfg, err := f.config(stderr)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	h, err := hub.Open(ctx, cfg)
	if err != nil {
		return withHubFlags(err)
	}
	defer h.Close()
	if _, err := fmt.Fprintln(stdout, h.URL()); err != nil {
		return fmt.Errorf("print URL: %w", err)
	}
	<-ctx.Done()
	return nil
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
