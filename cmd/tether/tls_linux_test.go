package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/certs"
)

// A client reaches a wss:// server with a token, and with a certificate of its own if the
// server asks for one.
func TestRunOverTLS(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	cert, key := certs.New(t, "server")
	own, ownKey := certs.New(t, "client")
	token := filepath.Join(b.work, "token")
	if got := b.tether(nil, "token", token); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := b.tether(nil, "token", token); got.code != exitError || !strings.Contains(got.stderr, "the file exists; --force replaces it") {
		t.Errorf("the same file again: %+v", got)
	}
	if info, err := os.Stat(token); err != nil || info.Mode().Perm() != 0o600 || info.Size() < 40 {
		t.Errorf("the token file: %v, %v", info, err)
	}

	server := b.command("serve", "--listen", "wss://127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", own,
		"--ws-auth", "capability-token", "--ws-token-file", token)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	run := func(flags ...string) end {
		return b.tether(nil, append(append([]string{"run", "--url", strings.TrimSpace(url)}, flags...), "--", "echo", "hello")...)
	}
	if got := run("--tls-ca", cert, "--tls-cert", own, "--tls-key", ownKey, "--token-file", token); got.code != 0 || got.stdout != "hello\n" || got.stderr != "" {
		t.Errorf("with everything: %+v", got)
	}
	for name, flags := range map[string][]string{
		"unknown authority":        {"--tls-cert", own, "--tls-key", ownKey, "--token-file", token},
		"no certificate":           {"--tls-ca", cert, "--token-file", token},
		"no token":                 {"--tls-ca", cert, "--tls-cert", own, "--tls-key", ownKey},
		"a key is missing":         {"--tls-ca", cert, "--tls-cert", own, "--token-file", token},
		"not a certificate":        {"--tls-ca", token, "--token-file", token},
		"a file that is not there": {"--tls-ca", filepath.Join(b.work, "none"), "--token-file", token},
	} {
		if got := run(flags...); got.code != exitRefused || got.stdout != "" || got.stderr == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if err := os.Chmod(token, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run("--tls-ca", cert, "--tls-cert", own, "--tls-key", ownKey, "--token-file", token); got.code != 0 || !strings.Contains(got.stderr, "other users can read "+token) {
		t.Errorf("with a token file that others can read: %+v", got)
	}
}
