//go:build interop

package interop_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A codexSetup is the real client, a new server, and a cable between them that records the methods of the client.
type codexSetup struct {
	t         *testing.T
	model     *model
	cable     *cable.Cable
	home      string
	workspace string // cwd of the turn, on the executor

	mu    sync.Mutex
	asked []string // methods that the client has called, in order
}

// newCodexSetup starts a server of the given product.
func newCodexSetup(t *testing.T, who product, m *model) *codexSetup {
	t.Helper()
	program(t, ref) // the client
	server := startServer(t, who)
	t.Cleanup(server.stop)
	s := &codexSetup{t: t, model: m, home: codexHome(t, m.URL)}
	s.workspace = filepath.Join(s.home, "ws")
	s.cable = tethertest.LayCableWith(t, cable.Config{Target: server.url, Tap: s.tap})
	return s
}

func (s *codexSetup) tap(m cable.Message) {
	if m.From == cable.FromClient && m.Method != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, m.Method)
	}
}

// calls returns the methods with this prefix that the client has called so far.
func (s *codexSetup) calls(prefix string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.asked), func(method string) bool { return !strings.HasPrefix(method, prefix) })
}

// run plays one turn of `codex exec` and returns the tool outputs that the model was shown.
func (s *codexSetup) run(args ...string) []string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), codexTimeout)
	defer cancel()
	cmd := codexExec(ctx, program(s.t, ref), s.home, s.cable.URL(), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		s.t.Errorf("codex exec: %v\n%s\n%s", err, shorten(out.String()), errs.String())
	}
	// The last requests of the client may still be on their way.
	if err := s.cable.AwaitOpen(ctx, 0); err != nil {
		s.t.Errorf("the client has ended, but not its connection: %v", err)
	}
	return s.shown()
}

// The parts of a tool output that differ between two runs of the same turn.
var passing = regexp.MustCompile(`(?m)^(Chunk ID: |Wall time: |Process running with session ID ).*$`)

// shown returns the tool outputs that the model was shown, without the parts that differ from run to run.
func (s *codexSetup) shown() (texts []string) {
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	for _, text := range s.model.outputs {
		text = passing.ReplaceAllString(text, "${1}…")
		texts = append(texts, strings.ReplaceAll(text, s.home, "HOME"))
	}
	return texts
}

// sameForTheModel plays a turn with both products and compares the tool outputs that the model was shown.
func sameForTheModel(t *testing.T, play func(t *testing.T, who product) []string) {
	t.Helper()
	exchange{compares: wholeReplies}.compareWith(t, func(t *testing.T, who product) (log []observation) {
		for i, text := range play(t, who) {
			log = append(log, observation{fmt.Sprintf("%03d shown", i+1), shorten(text)})
		}
		return log
	})
}

// wantShown checks the nth text that the model was shown.
func wantShown(t *testing.T, shown []string, n int, parts ...string) {
	t.Helper()
	if len(shown) < n {
		t.Fatalf("the model was shown %d texts, want %d", len(shown), n)
	}
	for _, part := range parts {
		if !strings.Contains(shown[n-1], part) {
			t.Errorf("no %q in what the model was shown:\n%s", part, shorten(shown[n-1]))
		}
	}
}

// TestCodexLargeOutputShown: if a command prints more than 5 MB, the model is shown the same beginning, end and count with both
// products.
func TestCodexLargeOutputShown(t *testing.T) {
	t.Parallel()
	const lines = 350_000 // 5.25 MB
	sameForTheModel(t, func(t *testing.T, who product) []string {
		shown := newCodexSetup(t, who, newModel(t, commands(numberedCommand(lines)))).run()
		wantShown(t, shown, 1, "Process exited with code 0", "LINE-000000001\n", "LINE-000350000\n")
		return shown
	})
}

// TestCodexWorkspaceWriteOutside: a command can write in the workspace, but not beside it. `codex exec` has no user to ask, so the
// model is shown the failure.
func TestCodexWorkspaceWriteOutside(t *testing.T) {
	t.Parallel()
	tethertest.NeedBubblewrap(t)
	sameForTheModel(t, func(t *testing.T, who product) []string {
		s := newCodexSetup(t, who, newModel(t, commands("echo data > inside.txt && cat inside.txt", "exec 2>&1; echo tried; echo data > ../outside.txt")))
		shown := s.run("--sandbox", "workspace-write")
		wantShown(t, shown, 1, "Process exited with code 0", "data\n")
		wantContent(t, filepath.Join(s.workspace, "inside.txt"), "data\n")
		wantShown(t, shown, 2, "Process exited with code 1", "tried\n", "../outside.txt: Read-only file system")
		if exists(filepath.Join(s.home, "outside.txt")) {
			t.Error("a command has written outside the workspace")
		}
		return shown
	})
}

// TestCodexNetwork: a command reaches a listener of this machine only if the sandbox
// has the network.
func TestCodexNetwork(t *testing.T) {
	t.Parallel()
	tethertest.NeedBubblewrap(t)
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprintf("network_access=%t", open), func(t *testing.T) {
			t.Parallel()
			sameForTheModel(t, func(t *testing.T, who product) []string { return dialFromTheSandbox(t, who, open) })
		})
	}
}

func dialFromTheSandbox(t *testing.T, who product, open bool) []string {
	listener, port := listen(t)
	dial := fmt.Sprintf(`bash -c 'exec 2>&1; echo trying; exec 9<>/dev/tcp/127.0.0.1/%d && echo "from the sandbox" >&9 && echo reached'`, port)
	s := newCodexSetup(t, who, newModel(t, commands(dial)))
	shown := s.run("--sandbox", "workspace-write", "-c", fmt.Sprintf("sandbox_workspace_write.network_access=%t", open))

	// Connections are accepted in order: the first one is the command's. If the command made none, it is this one.
	own, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	first, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	reached := first.RemoteAddr().String() != own.LocalAddr().String()
	if reached != open {
		t.Errorf("the command has reached the listener: %t, want %t", reached, open)
	}
	if reached {
		if text, err := io.ReadAll(first); string(text) != "from the sandbox\n" {
			t.Errorf("the command has sent %q, %v", text, err)
		}
	}
	if open {
		wantShown(t, shown, 1, "Process exited with code 0", "trying\nreached\n")
	} else {
		wantShown(t, shown, 1, "Process exited with code 1", "trying\n", "Operation not permitted")
	}
	for i := range shown {
		shown[i] = strings.ReplaceAll(shown[i], fmt.Sprint(port), "PORT")
	}
	return shown
}

// listen listens on loopback until the test ends.
func listen(t *testing.T) (*net.TCPListener, int) {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener, listener.Addr().(*net.TCPAddr).Port
}

// TestCodexParallelCommands: each of three commands in one answer waits for a file of the next one, so that none can end before all
// have begun.
func TestCodexParallelCommands(t *testing.T) {
	t.Parallel()
	tethertest.NeedBubblewrap(t)
	for _, mode := range []string{"danger-full-access", "workspace-write"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			sameForTheModel(t, func(t *testing.T, who product) []string { return commandsInARing(t, who, mode) })
		})
	}
}

func commandsInARing(t *testing.T, who product, mode string) []string {
	const n = 3
	var calls []modelItem
	for i := range n {
		ring := fmt.Sprintf(`timeout 25 sh -c 'echo from %d > fifo%d & cat fifo%d; wait'`, i, i, (i+1)%n)
		calls = append(calls, execCommand(0, map[string]any{"cmd": ring, "login": false, "yield_time_ms": 30000}))
	}
	s := newCodexSetup(t, who, newBatchModel(t, calls...))
	for i := range n {
		if err := syscall.Mkfifo(filepath.Join(s.workspace, fmt.Sprintf("fifo%d", i)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shown := s.run("--sandbox", mode)
	for i := range n {
		wantShown(t, shown, i+1, "Process exited with code 0", fmt.Sprintf("from %d\n", (i+1)%n))
	}
	return shown
}

// TestCodexDiscoversCapabilities: the client asks the executor for its skills and plugins, which it does only if the version of the
// executor looks like a release that supports it.
func TestCodexDiscoversCapabilities(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		s := newCodexSetup(t, who, newModel(t, commands("true")))
		s.run("--enable", "executor_capability_discovery_v2")
		if got := s.calls("capabilities/"); !slices.Equal(got, []string{"capabilities/discoverV2"}) {
			t.Errorf("the client has called %q", got)
		}
	})
}
