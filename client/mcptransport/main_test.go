package mcptransport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/mcprelay"
	"github.com/tetherexec/tether/client/mcptransport"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// toolserver is a real MCP server, built when it is needed.
var toolserver = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(binaries, "toolserver"), "./internal/toolserver").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("build the tool server: %w\n%s", err, out)
	}
	return filepath.Join(binaries, "toolserver"), err
})

var binaries string

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "mcptransport-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(binaries)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// testTimeout bounds each test.
const testTimeout = hang.Limit

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// A rig is an MCP client whose server runs behind a cable.
type rig struct {
	*testing.T
	dir       string
	server    *tethertest.Server
	cable     *cable.Cable
	executor  *client.Lazy
	log       *logbook
	transport *mcptransport.Transport
	opened    []io.Closer // sessions and pumps

	mu    sync.Mutex
	calls []string // methods that went to the executor
	start json.RawMessage
}

func newRig(t *testing.T) *rig {
	t.Helper()
	bin, err := toolserver()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{T: t, dir: t.TempDir(), server: tethertest.StartServer(t, server.Config{}), log: &logbook{}}
	r.cable = tethertest.LayCableWith(t, cable.Config{Target: r.server.URL, Tap: r.tap})
	r.executor = client.NewLazy(r.cable.URL(), client.Options{})
	t.Cleanup(func() { r.executor.Close() })
	r.transport = &mcptransport.Transport{Client: r.get, Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Command: mcprelay.Command{Argv: []string{bin}, Dir: r.dir}}
	return r
}

func (r *rig) tap(m cable.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m.From == cable.FromClient && m.Method != "" {
		r.calls = append(r.calls, m.Method)
		if m.Method == "process/start" {
			r.start = m.Params
		}
	}
}

// called counts requests of a method.
func (r *rig) called(method string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.calls {
		if m == method {
			n++
		}
	}
	return n
}

// connect opens an MCP session in which the client sends initialize, as in versions before the newest.
func (r *rig) connect(o *mcp.ClientOptions) *mcp.ClientSession {
	return r.connectAs("2025-06-18", o)
}

func (r *rig) connectAs(version string, o *mcp.ClientOptions) *mcp.ClientSession {
	r.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	s, err := c.Connect(within(r), r.transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		r.Fatal(err)
	}
	r.opened = append(r.opened, s)
	r.Cleanup(r.hangUp)
	return s
}

// over waits for the end of a session.
func (r *rig) over(s *mcp.ClientSession) error {
	r.Helper()
	why := make(chan error, 1)
	go func() { why <- s.Wait() }() // ends with the session
	select {
	case err := <-why:
		return err
	case <-within(r).Done():
		r.Fatal("the session does not end")
		return nil
	}
}

// hangUp closes all sessions and pumps.
func (r *rig) hangUp() {
	for _, s := range r.opened {
		s.Close()
	}
}

// open starts a server and leaves the lines to the test.
func (r *rig) open() *mcprelay.Pump {
	r.Helper()
	p, err := (*mcprelay.Server)(r.transport).Open(within(r))
	if err != nil {
		r.Fatal(err)
	}
	r.opened = append(r.opened, p)
	r.Cleanup(r.hangUp)
	return p
}

type args = map[string]any

func (r *rig) call(s *mcp.ClientSession, tool string, a args) (string, error) {
	result, err := s.CallTool(within(r), &mcp.CallToolParams{Name: tool, Arguments: a})
	if err != nil {
		return "", err
	}
	text := result.Content[0].(*mcp.TextContent).Text
	if result.IsError {
		return "", fmt.Errorf("the tool says: %s", text)
	}
	return text, nil
}

func (r *rig) must(s *mcp.ClientSession, tool string, a args) string {
	r.Helper()
	text, err := r.call(s, tool, a)
	if err != nil {
		r.Fatalf("%s: %v\n%s", tool, err, r.log)
	}
	return text
}

// lose stops the executor with all its processes, and starts another one in its place.
func (r *rig) lose() {
	r.Helper()
	r.cable.Cut()
	r.server.Stop()
	r.server = tethertest.StartServer(r, server.Config{})
	r.Cleanup(r.hangUp) // before the server stops
	if err := r.cable.Aim(r.server.URL); err != nil {
		r.Fatal(err)
	}
	r.cable.Mend()
}

// awaitFile waits until the server has made a file.
func (r *rig) awaitFile(name string) {
	r.Helper()
	tethertest.Eventually(r, func() error { _, err := os.Stat(name); return err })
}

// awaitLine waits until the server has written a line to a file.
func (r *rig) awaitLine(name string) {
	r.Helper()
	tethertest.Eventually(r, func() error {
		text, err := os.ReadFile(name)
		if err == nil && !bytes.HasSuffix(text, []byte("\n")) {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
}

// ended waits until a process is gone.
func (r *rig) ended(pid string) {
	r.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		r.Fatal(err)
	}
	tethertest.Eventually(r, func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", n)); err == nil {
			return fmt.Errorf("process %d is still there", n)
		}
		return nil
	})
}

// A logbook is a log that can be read while it is written.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logbook) has(text string) error {
	if !strings.Contains(l.String(), text) {
		return fmt.Errorf("the log does not say %q: %.2000s", text, l)
	}
	return nil
}

func serverConfig() server.Config { return server.Config{} }

// setExecutor sets the address of the executor for the next session.
func (r *rig) setExecutor(url string) {
	executor := client.NewLazy(url, client.Options{})
	r.Cleanup(func() { executor.Close() })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.executor = executor
}

func (r *rig) get(ctx context.Context) (*client.Client, error) {
	r.mu.Lock()
	executor := r.executor
	r.mu.Unlock()
	return executor.Get(ctx)
}

func nextName(t *testing.T, name string) string {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(name, "mcp-stdio-"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("mcp-stdio-%d", n+1)
}
