package main

import (
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/server"
)

func TestByteSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]byteSize{
		"1": 1, "67108864": 64 << 20, "64M": 64 << 20, "64MiB": 64 << 20, "64mib": 64 << 20,
		"3K": 3 << 10, "1GiB": 1 << 30, "2T": 2 << 40, "9223372036854775807": math.MaxInt64,
	} {
		var got byteSize
		if err := got.Set(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "1.5M", "M", "MiB", "64MB", "64 M", "1iB", "8388608T", "9223372036854775808", "0x10"} {
		var got byteSize
		if err := got.Set(text); err == nil {
			t.Errorf("%q: got %d", text, got)
		}
	}
	for size, want := range map[byteSize]string{1: "1", 1025: "1025", 64 << 20: "64MiB", 1 << 40: "1TiB", 3 << 9: "1536"} {
		if got := size.String(); got != want {
			t.Errorf("%d: got %s, want %s", int64(size), got, want)
		}
	}
}

func TestLifetimeString(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		30 * time.Second: "30s", time.Minute: "1m", 24 * time.Hour: "24h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m",
	} {
		if got := new(lifetime(d)).String(); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

// configOf runs a command line up to the Config it makes.
func configOf(t *testing.T, args string) (listenCfg listen.Config, cfg server.Config, warnings string, err error) {
	t.Helper()
	var flags serveFlags
	var stderr strings.Builder
	cmd := &cobra.Command{Use: "serve"}
	flags.define(cmd)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(io.Discard)
	if err := cmd.ParseFlags(strings.Fields(args)); err != nil {
		return listenCfg, cfg, "", usageError{err}
	}
	s, err := flags.settings(&stderr)
	if s != nil {
		listenCfg, cfg = s.listen, s.server
	}
	return listenCfg, cfg, stderr.String(), err
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	listenCfg, got, warnings, err := configOf(t, "")
	if err != nil || warnings != "" {
		t.Fatal(err, warnings)
	}
	if want := (listen.Config{URL: listen.DefaultURL, NamespaceHint: listenCfg.NamespaceHint, Console: listenCfg.Console}); listenCfg != want || want.Console == nil {
		t.Errorf("flags and zero values disagree:\ngot  %+v\nwant %+v", listenCfg, want)
	}
	want := server.Config{Subreaper: true, OwnGroup: true}.WithDefaults()
	got.Log, got.LogDropped, want.Log, want.Audit.Log, want.Version = nil, nil, nil, nil, got.Version
	if !reflect.DeepEqual(got, want) {
		t.Errorf("flags and zero values disagree:\ngot  %+v\nwant %+v", got, want)
	}
}

func TestConfigFromFlags(t *testing.T) {
	t.Parallel()
	listenCfg, cfg, _, err := configOf(t, "--listen wss://192.0.2.1:7 --concurrent-requests 18446744073709551615 --session-ttl 1m --session-ttl-max 2m "+
		"--forward any --forward-reverse loopback --retain 1M --spool-limit 2M --spool-total 3M --state-dir d --tls-cert c --tls-key k --tls-client-ca a "+
		"--ws-auth signed-bearer-token --ws-shared-secret-file s --ws-issuer i --ws-audience u --ws-max-clock-skew-seconds 5")
	if err != nil {
		t.Fatal(err)
	}
	if listenCfg.URL != "wss://192.0.2.1:7" || cfg.SessionTTL != time.Minute || cfg.SessionTTLMax != 2*time.Minute ||
		cfg.Forward != ports.Any || cfg.ForwardReverse != ports.Loopback || cfg.Retain != 1<<20 || cfg.SpoolLimit != 2<<20 || cfg.SpoolTotal != 3<<20 || cfg.StateDir != "d" ||
		listenCfg.TLS != (listen.TLSConfig{CertFile: "c", KeyFile: "k", ClientCAFile: "a"}) {
		t.Errorf("got %+v", cfg)
	}
	if want := (listen.SignedTokens{SecretFile: "s", Issuer: "i", Audience: "u", ClockSkew: 5}); listenCfg.Auth.Token != nil || *listenCfg.Auth.Signed != want {
		t.Errorf("got %+v", listenCfg.Auth)
	}
}

func TestReferenceFlags(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-c a=b -c c", "--config a=b", "--enable x --enable y", "--disable x", "--strict-config",
		"--proxy-private-ips-via-upstream", "--linux-sandbox-pid-namespace inherit", "--environment-id x", "--name x"} {
		_, _, warnings, err := configOf(t, args)
		if err != nil || strings.Count(warnings, "\n") != 1 || !strings.HasPrefix(warnings, "tether: warning: `--") {
			t.Errorf("%s: %v, warnings %q", args, err, warnings)
		}
	}
	if _, _, warnings, _ := configOf(t, "--proxy-private-ips-via-upstream"); !strings.Contains(warnings, "connects to private addresses itself") {
		t.Errorf("warnings %q", warnings) // tether has a network proxy
	}
	if _, _, warnings, err := configOf(t, "--linux-sandbox-pid-namespace isolate"); err != nil || warnings != "" {
		t.Errorf("isolate: %v, warnings %q", err, warnings)
	}
	for _, args := range []string{"--remote https://registry.example", "--remote-transport direct", "--use-agent-identity-auth",
		"--executor-credential-stdin", "--aws-sigv4", "--aws-profile x", "--aws-region x", "--aws-service x", "--exit-on-stdin-close"} {
		flag, _, _ := strings.Cut(args, " ")
		if _, _, _, err := configOf(t, args); err == nil || !strings.HasPrefix(err.Error(), "`"+flag+"` is not supported") {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// The name of the executor's machine that models get has no secrets.
func TestMCPWhere(t *testing.T) {
	for address, want := range map[string]string{
		"":                                 "this machine",
		"ws://127.0.0.1:7777":              "the machine at ws://127.0.0.1:7777",
		"wss://me:secret@build/x?token=no": "the machine at wss://me@build/x",
		"ssh://me@build:22":                "the machine at ssh://me@build:22",
		"unix:///run/t.sock":               "the machine at unix:///run/t.sock",
		"exec:reach --token secret":        "the machine that exec:reach leads to",
	} {
		t.Setenv(envURL, address)
		e := mcpExecutor{label: "test"}
		if got := e.where(); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}
