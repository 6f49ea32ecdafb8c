package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A worker that replaces another one has the settings of the first, whatever the configuration file is by then.
func TestSettingsOutliveTheConfigurationFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tether.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[serve]\nsession-ttl = \"77s\"\n")
	s := startKeeper(t, []string{hastyVariable + "=1"}, "--config-file", file)
	granted := func() time.Duration {
		return dialKept(t, s.url).TTL()
	}
	if got := granted(); got != 77*time.Second {
		t.Errorf("the first worker grants %v, want 77s", got)
	}
	write("[serve]\nsession-ttl = \"soon\"\n")
	s.killWorker(t)
	if got := granted(); got != 77*time.Second {
		t.Errorf("the second worker grants %v, want 77s", got)
	}
}

// If the file had no settings for the command, a worker that replaces another one does not read it either.
func TestWorkersReadNoConfigurationFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tether.toml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startKeeper(t, []string{hastyVariable + "=1"}, "--config-file", file)
	if err := os.WriteFile(file, []byte("[serve]\nsession-ttl = \"soon\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.killWorker(t)
	dialKept(t, s.url)
}

// Each name of a command that may have settings is that of a command with a --config-file flag.
func TestConfigurableCommands(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for _, name := range []string{"serve", "app-server", "gateway", "hub"} {
		if got := b.tether(nil, name, "--help"); got.code != 0 || !strings.Contains(got.stdout, "--"+flagConfigFile) {
			t.Errorf("%s --help: %+v", name, got)
		}
	}
}

// The values of flags that name files are relative to the configuration file.
func TestFlagsThatNameFiles(t *testing.T) {
	t.Parallel()
	fs := newServe("serve", "", nil, nil, nil).Flags()
	for name, want := range map[string]bool{
		"ws-token-file": true, "ws-shared-secret-file": true, "tls-cert": true, "tls-key": true, "tls-client-ca": true, "state-dir": true,
		"creds": true, "nats-ca": true, flagAuditLog: true, "listen": false, "join": false, "name": false, "label": false, "durable": false,
	} {
		if got := namesFile(fs.Lookup(name), "x"); got != want {
			t.Errorf("--%s x names a file: %v", name, got)
		}
	}
	for _, target := range []string{"stderr", "syslog"} {
		if namesFile(fs.Lookup(flagAuditLog), target) {
			t.Errorf("--%s %s names a file", flagAuditLog, target)
		}
	}
}
