package main

import (
	"slices"
	"strings"
	"testing"
)

// Errors about listening and authentication name the flags.
func TestErrorsOfListenFlags(t *testing.T) {
	t.Parallel()
	const (
		token      = "--ws-auth capability-token "
		signed     = "--ws-auth signed-bearer-token "
		needMode   = "websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`"
		needSigned = "`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and `--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`"
		needToken  = "`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, not `signed-bearer-token`"
		noToken    = "`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set"
		badDigest  = "--ws-token-sha256 must be a 64-character hex SHA-256 digest"
		notTLS     = "TLS flags require a `wss://IP:PORT` --listen URL, not `"
		refusing   = "refusing to listen on `"
	)
	digest := strings.Repeat("aB", 32)
	for _, tt := range []struct {
		args string
		want string // start of the error; "": none
	}{
		{"", ""},
		{"--ws-token-file f", needMode},
		{"--ws-token-sha256=", needMode},
		{"--ws-shared-secret-file f", needMode},
		{"--ws-issuer=", needMode},
		{"--ws-audience a", needMode},
		{"--ws-max-clock-skew-seconds 0", needMode},

		{token, noToken},
		{token + "--ws-token-file f --ws-token-sha256 " + digest, "`--ws-token-file` and `--ws-token-sha256` are mutually exclusive"},
		{token + "--ws-token-file f --ws-issuer= --ws-token-sha256 " + digest, needSigned},
		{token + "--ws-shared-secret-file f", needSigned},
		{token + "--ws-token-file f --ws-max-clock-skew-seconds 1", needSigned},
		{token + "--ws-token-sha256 " + digest, ""},
		{token + "--ws-token-sha256 " + digest[2:], badDigest},
		{token + "--ws-token-sha256=", badDigest},
		{token + "--ws-token-sha256 g" + digest[1:], badDigest},
		{token + "--ws-token-file missing", ""}, // it is read when the listener is opened

		{signed + "--ws-issuer a", "`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set"},
		{signed + "--ws-token-file f --ws-shared-secret-file f", needToken},
		{signed + "--ws-token-sha256 " + digest, needToken},
		{signed + "--ws-shared-secret-file f", ""},
		{signed + "--ws-shared-secret-file f --ws-max-clock-skew-seconds 9223372036854775808", "websocket auth clock skew must fit in a signed 64-bit integer"},

		{"--oidc-audience a", "`--oidc-audience`, `--oidc-claim`, `--oidc-scope-claim` and `--oidc-ca` require `--oidc-issuer`"},
		{"--oidc-claim a=b", "`--oidc-audience`, `--oidc-claim`, "},
		{"--oidc-ca f", "`--oidc-audience`, `--oidc-claim`, "},
		{"--oidc-issuer https://i", "`--oidc-issuer` requires `--oidc-audience`"},
		{"--oidc-issuer https://i --oidc-audience a " + token + "--ws-token-file f", "`--oidc-issuer` excludes `--ws-auth`"},
		{"--oidc-issuer https://i --oidc-audience a --ws-issuer j", "`--oidc-issuer` excludes `--ws-auth`"},
		{"--oidc-issuer https://i --oidc-audience a --ws-max-clock-skew-seconds 1", "`--oidc-issuer` needs a restart"}, // of this build

		{"--listen bogus --ws-token-file f", needMode},
		{"--listen bogus " + token + "--ws-token-file missing", "unsupported --listen URL `bogus`"},
		{"--listen unix://", "invalid socket --listen URL `unix://`; expected `unix://PATH`"},
		{"--listen stdio " + token + "--ws-token-sha256 " + digest, "WebSocket auth requires a WebSocket listener, not stdio"},
		{"--listen wss://127.0.0.1:1", "--listen URL `wss://127.0.0.1:1` requires `--tls-cert` and `--tls-key`"},
		{"--listen ws://127.0.0.1:1 --tls-cert c --tls-key k", notTLS + "ws://127.0.0.1:1`"},
		{"--tls-cert c --tls-key k", notTLS + "ws://127.0.0.1:0`"},
		{"--listen unix://s --tls-cert c --tls-key k", notTLS + "unix://s`"},
		{"--tls-cert c", "`--tls-cert` requires `--tls-key`"},
		{"--tls-key k", "`--tls-key` requires `--tls-cert`"},
		{"--tls-client-ca c", "`--tls-client-ca` requires `--tls-cert` and `--tls-key`"},
		{"--listen ws://0.0.0.0:1", refusing + "ws://0.0.0.0:1` without authentication: "},
		{"--listen wss://192.0.2.1:1 --tls-cert c --tls-key k", refusing},
		{"--listen wss://192.0.2.1:1 --tls-cert c --tls-key k --tls-client-ca a", ""},
		{"--listen ws://192.0.2.1:1 --insecure-no-auth", ""},
	} {
		_, _, _, err := configOf(t, tt.args)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.args, got, tt.want)
		}
	}
}

// A TLS file that cannot be read is named with its flag.
func TestUnreadableTLSFile(t *testing.T) {
	t.Parallel()
	for flag, files := range map[string]string{
		"--tls-cert": "--tls-cert /missing/c --tls-key /missing/k", "--tls-key": "--tls-cert listenflags_test.go --tls-key /missing/k",
	} {
		listenCfg, _, _, err := configOf(t, "--listen wss://127.0.0.1:0 "+files)
		if err != nil {
			t.Fatal(err)
		}
		_, err = openListener(t.Context(), listenCfg)
		if err == nil || !strings.HasPrefix(err.Error(), "cannot read `"+flag+"` /missing/") || !strings.HasSuffix(err.Error(), ": no such file or directory") {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// Sandboxes hide the files with which a command could become a client.
func TestListenerFilesArePrivate(t *testing.T) {
	t.Parallel()
	for args, want := range map[string][]string{
		"": nil,
		"--listen unix:///run/s --ws-auth capability-token --ws-token-file /run/t":                                                   {"/run/s", "/run/t"},
		"--listen wss://127.0.0.1:0 --tls-cert /run/c --tls-key /run/k --ws-auth signed-bearer-token --ws-shared-secret-file /run/f": {"/run/f", "/run/k"},
	} {
		_, cfg, _, err := configOf(t, args)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(slices.Values(cfg.Private)); !slices.Equal(got, want) {
			t.Errorf("%s: %v", args, got)
		}
	}
}

// The hint in the refusal of a client in another namespace names a flag that exists.
func TestNamespaceHintNamesTheFlag(t *testing.T) {
	t.Parallel()
	cfg, _, _, err := configOf(t, "--listen unix:///run/s --any-namespace")
	if err != nil || !cfg.AnyNamespace || !strings.Contains(cfg.NamespaceHint, "--any-namespace") {
		t.Errorf("%+v, %v", cfg, err)
	}
}
