package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/certs"
	"github.com/tetherexec/tether/wire"
)

// startDetached starts `tether serve` as a service does: without a terminal, whose end SIGHUP would tell.
func startDetached(t *testing.T, args ...string) *keptServer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return awaitKeeper(t, startProgram(t, []string{hastyVariable + "=1"}, cmd))
}

// put replaces a file, so that a reader finds the old or the new content.
func put(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".next", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		t.Fatal(err)
	}
}

// hangUp sends SIGHUP, and waits until the log says that settings have changed, or cannot be used.
func (s *keptServer) hangUp(t *testing.T, kinds ...string) {
	t.Helper()
	count := func(kind string) (n int) {
		for line := range strings.Lines(s.stderr.String()) {
			if strings.Contains(line, `"settings":"`+kind+`"`) {
				n++
			}
		}
		return n
	}
	before := map[string]int{}
	for _, kind := range kinds {
		before[kind] = count(kind)
	}
	s.Process.Signal(syscall.SIGHUP)
	tethertest.Eventually(t, func() error {
		for kind, n := range before {
			if count(kind) == n {
				return fmt.Errorf("the log does not tell of %s", kind)
			}
		}
		return nil
	})
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A rotation is a server whose tokens and certificates are replaced. In phase 2n its token is tokenOf(n); odd phases are between two tokens.
type rotation struct {
	*keptServer
	token, cert, key string     // files of the server
	next             []pair     // certificates that it will have
	trust            tls.Config // of clients
	phase            atomic.Int64
}

// A pair is a certificate with its key, in files.
type pair struct{ cert, key string }

func tokenOf(n int64) string { return fmt.Sprintf("token-%d", n) }

// startRotation starts a server that will have so many certificates.
func startRotation(t *testing.T, certificates int) *rotation {
	t.Helper()
	dir := t.TempDir()
	r := &rotation{token: filepath.Join(dir, "token"), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), trust: tls.Config{RootCAs: x509.NewCertPool()}}
	for range certificates {
		var p pair
		p.cert, p.key = certs.New(t, "server")
		r.next = append(r.next, p)
		r.trust.RootCAs.AppendCertsFromPEM(read(t, p.cert))
	}
	put(t, r.token, []byte(tokenOf(0)))
	r.useCertificate(t)
	r.keptServer = startDetached(t, "serve", "--keeper", "--log-level", "info", "--log-format", "json", "--listen", "wss://127.0.0.1:0", "--tls-cert", r.cert, "--tls-key", r.key,
		"--ws-auth", "capability-token", "--ws-token-file", r.token)
	return r
}

// useCertificate puts the next certificate into the files of the server, and returns it.
func (r *rotation) useCertificate(t *testing.T) (cert []byte) {
	t.Helper()
	p := r.next[0]
	r.next, cert = r.next[1:], read(t, p.cert)
	put(t, r.cert, cert)
	put(t, r.key, read(t, p.key))
	return cert
}

func (r *rotation) dial(ctx context.Context, n int64, resume string) (*client.Client, error) {
	return client.Dial(ctx, r.url, client.Options{Token: tokenOf(n), TLS: &r.trust, Resume: resume})
}

// rotate replaces token and certificate.
func (r *rotation) rotate(t *testing.T) {
	t.Helper()
	n := r.phase.Add(1)/2 + 1
	put(t, r.token, []byte(tokenOf(n)))
	own := x509.NewCertPool()
	own.AppendCertsFromPEM(r.useCertificate(t))
	r.hangUp(t, wire.SettingsTokens) // reported after the certificates were read, too
	r.phase.Add(1)
	conn, err := tls.Dial("tcp", strings.TrimPrefix(r.url, "wss://"), &tls.Config{RootCAs: own})
	if err != nil {
		t.Fatalf("the new certificate is not served: %v", err)
	}
	conn.Close()
}

// reconnect resumes a session again and again, until it has done so with token n, and token n-1 was refused. As long as a token is in force,
// it is accepted.
func (r *rotation) reconnect(t *testing.T, session string, n int64) {
	for t.Context().Err() == nil && !t.Failed() {
		before := r.phase.Load()
		c, err := r.dial(t.Context(), before/2, session)
		stable := before%2 == 0 && r.phase.Load() == before
		if err == nil {
			err = c.Ping(t.Context())
			c.Close()
		}
		switch {
		case err != nil && stable:
			t.Errorf("a client with token %d, which is in force: %v", before/2, err)
		case stable && before == 2*n:
			if c, err := r.dial(t.Context(), n-1, session); err == nil {
				c.Close()
				t.Errorf("token %d is accepted after token %d is in force", n-1, n)
			} else if !strings.Contains(err.Error(), "it refuses the token") {
				t.Errorf("token %d after token %d is in force: %v", n-1, n, err)
			}
			return
		}
	}
}

// A steady client stays connected, and runs a command that answers each line.
type steady struct {
	*client.Client
	command    *client.Process
	answers    *bufio.Reader
	connection context.Context // the first one
}

func (r *rotation) steady(t *testing.T) *steady {
	t.Helper()
	c, err := r.dial(t.Context(), 0, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "while read line; do echo $line; done; exit 7"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	return &steady{c, p, bufio.NewReader(p.Stdout()), c.Connection()}
}

// ask checks that the command answers over the first connection.
func (s *steady) ask(t *testing.T, line string) {
	t.Helper()
	if err := s.command.Write(t.Context(), []byte(line+"\n")); err != nil {
		t.Errorf("write to a command: %v", err)
	}
	if got, err := s.answers.ReadString('\n'); got != line+"\n" {
		t.Errorf("a command answers %q to %q, %v", got, line, err)
	}
	if s.connection.Err() != nil {
		t.Errorf("a connection has ended: %v", context.Cause(s.connection))
	}
}

// Tokens and certificates are replaced while 20 commands run, and 20 other clients reconnect. No command ends, open connections live on, the
// earlier token is refused from the moment when the next one is in force, and that is accepted.
func TestRotation(t *testing.T) {
	t.Parallel()
	const clients = 20
	rotations := tethertest.Scaled(2, 20)
	r := startRotation(t, rotations+1)
	var commands []*steady
	var sessions []string
	for range clients {
		commands = append(commands, r.steady(t))
		c, err := r.dial(t.Context(), 0, "")
		if err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, c.SessionID())
		c.Close()
	}
	for n := range rotations {
		var reconnecting sync.WaitGroup
		for _, session := range sessions {
			reconnecting.Go(func() { r.reconnect(t, session, int64(n)+1) })
		}
		r.rotate(t)
		reconnecting.Wait()
		for _, c := range commands {
			c.ask(t, fmt.Sprint("rotation ", n))
		}
	}
	for _, c := range commands {
		if err := c.command.CloseStdin(t.Context()); err != nil {
			t.Error(err)
		}
		if exit, err := c.command.Result(t.Context()); err != nil || exit.Code != 7 {
			t.Errorf("a command has ended with %+v, %v", exit, err)
		}
	}
	r.stop(t)
}

// `tether reload` reads the configuration file again, and tells what has changed, what is refused, and what needs a restart. The settings stay when
// the worker dies, and in an upgrade.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "tether.toml")
	write := func(text string) { put(t, file, []byte("[serve]\n"+text)) }
	write("session-ttl = \"77s\"\nretain = \"1MiB\"\n")
	s := startDetached(t, "serve", "--keeper", "--config-file", file, "--listen", "unix://"+filepath.Join(dir, "t.sock"), "--retain", "2MiB")
	reload := func(code int, want ...string) {
		t.Helper()
		text, got := s.tether(t, "reload", "--url", s.url)
		for _, part := range want {
			if got != code || !strings.Contains(text, part) {
				t.Errorf("exit code %d, %q, want %d, %q", got, text, code, part)
			}
		}
	}
	ttl := func(want time.Duration) {
		t.Helper()
		if got := dialKept(t, s.url).TTL(); got != want {
			t.Errorf("a session lives %v, want %v", got, want)
		}
	}
	reload(0, "no setting has changed")
	write("session-ttl = \"88s\"\nretain = \"3MiB\"\nlog-level = \"debug\"\nidle-exit = \"1h\"\nforward = \"none\"\n")
	early := dialKept(t, s.url)
	reload(0, "limits: changed\n", "log level: changed\n", "without a restart of the server: idle-exit, forward\n")
	ttl(88 * time.Second)
	if got := early.TTL(); got != 77*time.Second {
		t.Errorf("an earlier session lives %v", got)
	}
	for text, want := range map[string]string{
		"session-ttl = \"99s\"\nsesion-ttl-max = \"1h\"\n":             "sesion-ttl-max",
		"session-ttl = \"99s\"\nidle-exit = true\n":                    "idle-exit: expected a text",
		"session-ttl = \"99s\"\nsession-ttl-max = \"1s\"\n":            "--session-ttl-max",
		"session-ttl = \"99s\"\nlisten = \"ws://0.0.0.0:0\"\n[serve\n": "tether.toml",
		"limit-memory = \"1\"\n":                                       "limits: ",
	} {
		write(text)
		reload(1, want, "refused")
		ttl(88 * time.Second)
	}
	s.killWorker(t)
	ttl(88 * time.Second)
	if text, code := s.upgrade(t, "--to", variant(t, "version-second")); code != 0 {
		t.Fatalf("exit code %d, %q", code, text)
	}
	ttl(88 * time.Second)
	write("")
	reload(0, "limits: changed")
	ttl(30 * time.Second)
	s.killWorker(t)
	ttl(30 * time.Second)
	s.stop(t)
}

// Only the user of a server may let it read its settings. A client over TCP may belong to any user, and is told what to do.
func TestReloadIsForTheUserOfTheServer(t *testing.T) {
	t.Parallel()
	s := startKept(t)
	text, code := s.tether(t, "reload", "--url", s.url)
	if code != 1 || !strings.Contains(text, "only the user of the server") || !strings.Contains(text, fmt.Sprintf("SIGHUP to process %d", s.Process.Pid)) {
		t.Errorf("exit code %d, %q", code, text)
	}
	s.stop(t)
}

// A worker that takes over has the tokens that its server has read again, also if the configuration file has them, and it is another program.
func TestTokensSurviveWorkers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "tether.toml")
	write := func(token string) {
		put(t, file, fmt.Appendf(nil, "[serve]\nws-auth = \"capability-token\"\nws-token-sha256 = \"%x\"\n", sha256.Sum256([]byte(token))))
	}
	write("old")
	s := startDetached(t, "serve", "--keeper", "--config-file", file, "--log-level", "info", "--log-format", "json")
	check := func(when string) {
		t.Helper()
		if old, new := s.ask(t, "old"), s.ask(t, "new"); !strings.Contains(old, "401") || new != "" {
			t.Errorf("%s: old token: %s, new token: %s", when, old, new)
		}
	}
	if got := s.ask(t, "old"); got != "" {
		t.Fatal(got)
	}
	write("new")
	s.hangUp(t, wire.SettingsTokens)
	check("after the reload")
	put(t, file, []byte("[serve]\n")) // no token at all: that is refused
	s.hangUp(t, wire.SettingsTokens)
	check("after a reload that is refused")
	s.killWorker(t)
	check("after the death of the worker")
	s.stop(t)
}

// A server without a keeper, and an app-server with or without one, read their settings again after SIGHUP.
func TestReloadBySignal(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"serve without a keeper":      {"serve", "--no-keeper"},
		"app-server without a keeper": {"app-server", "--listen", "ws://127.0.0.1:0", "--no-keeper"},
		"app-server":                  {"app-server", "--listen", "ws://127.0.0.1:0", "--keeper"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := filepath.Join(t.TempDir(), "token")
			put(t, token, []byte("old"))
			startDetached(t, append(args, "--log-level", "info", "--log-format", "json", "--ws-auth", "capability-token", "--ws-token-file", token)...).checkSignal(t, token)
		})
	}
}

// checkSignal replaces the token old of a server by new.
func (s *keptServer) checkSignal(t *testing.T, file string) {
	t.Helper()
	if got := s.ask(t, "old"); got != "" { // now it serves
		t.Fatal(got)
	}
	put(t, file, nil)
	s.hangUp(t, wire.SettingsTokens)
	if got := s.ask(t, "old"); got != "" {
		t.Errorf("after the token file was empty: %s", got)
	}
	put(t, file, []byte("new"))
	s.hangUp(t, wire.SettingsTokens)
	if old, new := s.ask(t, "old"), s.ask(t, "new"); !strings.Contains(old, "401") || new != "" {
		t.Errorf("old token: %s, new token: %s", old, new)
	}
	s.Process.Signal(syscall.SIGTERM)
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
}

// ask connects with a token, and returns why the server refuses that; "": it does not.
func (s *keptServer) ask(t *testing.T, token string) string {
	t.Helper()
	ws, err := tethertest.DialWS(t.Context(), s.url, http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		return err.Error()
	}
	ws.Close()
	return ""
}

// A gateway reads the tokens of its clients again after SIGHUP.
func TestGatewayReload(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	token := filepath.Join(f.work, "token")
	put(t, token, []byte("old"))
	cmd := f.command("gateway", "--creds", f.creds("gateway", "gate"), "--log-level", "info", "--log-format", "json", "--ws-auth", "capability-token", "--ws-token-file", token)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := startProgram(t, f.env, cmd)
	t.Cleanup(func() {
		p.Process.Kill()
		p.Wait()
	})
	(&keptServer{p, p.line(t)}).checkSignal(t, token)
}
