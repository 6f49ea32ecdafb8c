//go:build interop

package interop_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
)

// codexTimeout bounds one run of the real client.
const codexTimeout = 150 * time.Second

// A codexRun is one run of the unmodified Codex CLI in front of an exec-server.
type codexRun struct {
	server   *server
	model    *model
	cable    *cable.Cable
	recorder *recorder
	stdout   string // events of the client, one JSON object per line
	stderr   string
}

// runCodex runs one turn of the real client against a new server of the given
// product, with these flags, through a cable that records. meanwhile, if not nil,
// runs beside it until its context ends with the client.
func runCodex(t *testing.T, who product, script func(turn int, outputs []string) modelItem,
	meanwhile func(ctx context.Context, r *codexRun), flags ...string) *codexRun {
	t.Helper()
	program(t, ref)
	server := startServer(t, who, flags...)
	t.Cleanup(server.stop)
	return runCodexAt(t, server, script, meanwhile)
}

// runCodexAt is runCodex with a server that runs already.
func runCodexAt(t *testing.T, server *server, script func(turn int, outputs []string) modelItem, meanwhile func(ctx context.Context, r *codexRun)) *codexRun {
	t.Helper()
	client := program(t, ref)
	r := &codexRun{server: server, model: newModel(t, script), recorder: newRecorder()}
	r.cable = tethertest.LayCableWith(t, cable.Config{Target: server.address(t), Sent: r.recorder.sent})
	home := codexHome(t, r.model.URL)

	ctx, cancel := context.WithTimeout(t.Context(), codexTimeout)
	defer cancel()
	cmd := codexExec(ctx, client, home, r.cable.URL())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var beside sync.WaitGroup
	if meanwhile != nil {
		beside.Go(func() { meanwhile(ctx, r) }) // ends with ctx
	}
	err := cmd.Run()
	cancel()
	beside.Wait()
	r.stdout, r.stderr = out.String(), errs.String()
	if err != nil {
		t.Errorf("codex exec: %v\n%s\n%s", err, shorten(r.stdout), r.stderr)
	}
	return r
}

// codexExec prepares one turn of the real client in front of the server at url, with
// more arguments for it.
func codexExec(ctx context.Context, client, home, url string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, client, append(append([]string{"exec", "--json", "--skip-git-repo-check"}, args...), "do it")...)
	cmd.Dir = filepath.Join(home, "ws")
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Join(home, "user"), "CODEX_HOME=" + filepath.Join(home, "codex"),
		"CODEX_EXEC_SERVER_URL=" + url, "LANG=C.UTF-8"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// codexHome makes the client's directories with a configuration that knows only
// the scripted model.
func codexHome(t *testing.T, modelURL string) string {
	t.Helper()
	home, err := os.MkdirTemp(suite.dir, "client-")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"ws", "user", "codex"} {
		if err := os.Mkdir(filepath.Join(home, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf(`model = "gpt-5.5"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[model_providers.mock]
name = "mock"
base_url = "%s/v1"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[projects."%s"]
trust_level = "trusted"
`, modelURL, filepath.Join(home, "ws"))
	if err := os.WriteFile(filepath.Join(home, "codex", "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// last returns the last tool output that the model was shown.
func (r *codexRun) last() string {
	r.model.mu.Lock()
	defer r.model.mu.Unlock()
	if len(r.model.outputs) == 0 {
		return ""
	}
	return r.model.outputs[len(r.model.outputs)-1]
}

// wantExit checks that the last tool call ended with exit code 0 and that the client reported no loss.
func (r *codexRun) wantExit(t *testing.T) {
	t.Helper()
	r.model.mu.Lock()
	all := strings.Join(r.model.outputs, "\n----\n")
	r.model.mu.Unlock()
	if !strings.Contains(r.last(), "Process exited with code 0") {
		t.Errorf("the last tool output shows no exit 0:\n%s\nclient: %s", r.last(), r.stderr)
	}
	for _, bad := range []string{"failed to recover", "no longer retained", "transport disconnected", "recovery timed out"} {
		if strings.Contains(all, bad) || strings.Contains(r.stderr, bad) {
			t.Errorf("the client says %q:\n%s\n%s", bad, shorten(all), r.stderr)
		}
	}
}

// wantOutput checks that exactly content was sent to the client.
func (r *codexRun) wantOutput(t *testing.T, content []byte) {
	t.Helper()
	r.cable.Close() // after this nothing more is recorded
	n, sum, problems := r.recorder.sum()
	for _, p := range problems {
		t.Error(p)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256(content)); sum != want {
		t.Errorf("%d bytes with SHA-256 %s went to the client, want %d bytes with %s; numbers without output: %d",
			n, sum, len(content), want, r.recorder.missing())
	}
}

// onProducts runs a test of the client against tether and, with -live to validate the
// test itself, against the reference.
func onProducts(t *testing.T, run func(t *testing.T, who product)) {
	for _, who := range products {
		if who == ref && !*live {
			continue
		}
		t.Run(string(who), func(t *testing.T) { program(t, who); run(t, who) })
	}
}

// oneCommand runs cmd and polls until it has ended.
func oneCommand(args map[string]any) func(turn int, outputs []string) modelItem {
	return func(turn int, outputs []string) modelItem {
		if turn == 1 {
			return execCommand(turn, args)
		}
		if session, running := runningSession(outputs); running && turn < 40 {
			return writeStdin(turn, session, "", 30000)
		}
		return say("done")
	}
}

func TestCodexOneCommand(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		r := runCodex(t, who, oneCommand(map[string]any{"cmd": "echo hello; echo world >&2"}), nil)
		r.wantExit(t)
		if !strings.Contains(r.last(), "hello") || !strings.Contains(r.last(), "world") {
			t.Errorf("tool output: %s", r.last())
		}
	})
}

func TestCodexNonZeroExit(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		r := runCodex(t, who, oneCommand(map[string]any{"cmd": "echo bad; exit 3"}), nil)
		if !strings.Contains(r.last(), "Process exited with code 3") || !strings.Contains(r.last(), "bad") {
			t.Errorf("tool output: %s", r.last())
		}
	})
}

// TestCodexPolls runs a command that outlives the first call, so that the client
// comes back for it.
func TestCodexPolls(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		polls, polled := 0, filepath.Join(t.TempDir(), "polled")
		r := runCodex(t, who, func(turn int, outputs []string) modelItem {
			if turn == 1 {
				return execCommand(turn, map[string]any{"yield_time_ms": 250, "cmd": fmt.Sprintf(
					"echo tick 1; until [ -e %s ]; do sleep 0.02; done; for i in 2 3; do echo tick $i; sleep 0.7; done", polled)})
			}
			if session, running := runningSession(outputs); running && turn < 10 {
				if polls++; polls == 1 {
					os.WriteFile(polled, nil, 0o600) // without it the command does not end
				}
				return writeStdin(turn, session, "", 5000)
			}
			return say("done")
		}, nil)
		r.wantExit(t)
		if polls == 0 {
			t.Error("the command did not outlive the first call")
		}
		r.wantOutput(t, []byte("tick 1\ntick 2\ntick 3\n"))
	})
}

// TestCodexTerminal answers a question on a terminal and ends the input.
func TestCodexTerminal(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		const script = `test -t 0 && echo TTY; stty size; printf 'name? '; read n; echo "hi $n"; cat; echo after`
		said := map[string]bool{}
		r := runCodex(t, who, func(turn int, outputs []string) modelItem {
			if turn == 1 {
				return execCommand(turn, map[string]any{"cmd": script, "tty": true, "yield_time_ms": 500})
			}
			session, running := runningSession(outputs)
			if !running || turn > 20 {
				return say("done")
			}
			shown := strings.Join(outputs, "\n")
			for _, step := range []struct{ after, chars string }{{"name?", "bob\n"}, {"hi bob", "\x04"}} {
				if strings.Contains(shown, step.after) && !said[step.chars] {
					said[step.chars] = true
					return writeStdin(turn, session, step.chars, 500)
				}
			}
			return writeStdin(turn, session, "", 5000)
		}, nil)
		r.wantExit(t)
		r.model.mu.Lock()
		all := strings.Join(r.model.outputs, "\n")
		r.model.mu.Unlock()
		for _, want := range []string{"TTY", "24 80", "name?", "hi bob", "after"} {
			if !strings.Contains(all, want) {
				t.Errorf("no %q in the tool outputs:\n%s", want, all)
			}
		}
	})
}

// numbered is what `seq -f LINE-%09.0f 1 n` prints: 15 bytes a line.
func numbered(n int) []byte {
	var b bytes.Buffer
	b.Grow(15 * n)
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "LINE-%09d\n", i)
	}
	return b.Bytes()
}

func numberedCommand(n int) string { return fmt.Sprintf("seq -f LINE-%%09.0f 1 %d", n) }

func TestCodexLargeOutput(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		const lines = 350_000 // 5.25 MB
		r := runCodex(t, who, oneCommand(map[string]any{"cmd": numberedCommand(lines), "yield_time_ms": 30000}), nil)
		r.wantExit(t)
		r.wantOutput(t, numbered(lines))
	})
}
