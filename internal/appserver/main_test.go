//go:build unix

package appserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/tethertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// j is a JSON object.
type j = map[string]any

// A fixture is a running server.
type fixture struct {
	*Server
	t   testing.TB
	url string
	cwd string
}

// start serves on loopback until the test ends. change, if not nil, is applied
// first.
func start(t testing.TB, change func(*Server)) *fixture {
	t.Helper()
	s, err := New(Config{Env: []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "LANG=C.UTF-8", "PROBE_A=1", "PROBE_B=2",
		"NODE_REPL_AUTH_TOKEN=secret", "openai_federation_rule_id=secret", "MY_TOKEN=kept"}})
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(s)
	}
	l, err := listen.Open(t.Context(), listen.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() { // ends with ctx
		if err := s.Serve(ctx, l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		serving.Wait()
		s.Close()
	})
	return &fixture{Server: s, t: t, url: l.URL, cwd: t.TempDir()}
}

// A user is a client of the API.
type user struct {
	*tethertest.Client
	t   testing.TB
	cwd string
}

// connect connects and does the handshake.
func (f *fixture) connect() *user {
	f.t.Helper()
	return f.connectWith(j{"experimentalApi": true})
}

func (f *fixture) connectWith(capabilities j) *user {
	f.t.Helper()
	c := &user{tethertest.Dial(f.t, f.url), f.t, f.cwd}
	c.Must("initialize", j{"clientInfo": j{"name": "test", "version": "1"}, "capabilities": capabilities}, nil)
	c.Send(`{"method":"initialized"}`)
	return c
}

// spawnParams returns parameters to start argv; options replace or add members. There is no time limit otherwise: the
// default of 10 s ends processes too early on a busy machine.
func (c *user) spawnParams(handle string, options j, argv ...string) j {
	params := j{"command": argv, "processHandle": handle, "cwd": c.cwd, "timeoutMs": nil}
	for name, value := range options {
		params[name] = value
		if value == absent {
			delete(params, name)
		}
	}
	return params
}

// absent as an option removes a member.
const absent = "absent"

// spawn starts argv and fails the test if that fails.
func (c *user) spawn(handle string, options j, argv ...string) {
	c.t.Helper()
	var result j
	c.Must("process/spawn", c.spawnParams(handle, options, argv...), &result)
	if len(result) != 0 {
		c.t.Errorf("spawn of %s was answered %v", handle, result)
	}
}

// sh starts a script.
func (c *user) sh(handle string, options j, script string) {
	c.t.Helper()
	c.spawn(handle, options, "sh", "-c", script)
}

// An exit is process/exited.
type exit struct {
	ProcessHandle       string
	ExitCode            int
	OutputDrainTimedOut bool
	Stdout              string
	StdoutCapReached    bool
	Stderr              string
	StderrCapReached    bool
}

// A delta is process/outputDelta.
type delta struct {
	ProcessHandle string
	Stream        string
	DeltaBase64   string
	CapReached    bool
}

func about(m tethertest.Message, method, handle string) bool {
	var p struct{ ProcessHandle string }
	return m.Method == method && json.Unmarshal(m.Params, &p) == nil && p.ProcessHandle == handle
}

// exited waits for the end of a process.
func (c *user) exited(handle string) exit {
	c.t.Helper()
	m := c.Await("the end of "+handle, func(m tethertest.Message) bool { return about(m, "process/exited", handle) })
	var e exit
	c.decode(m.Params, &e)
	var stamp struct{ EmittedAtMs int64 }
	c.decode(m.Raw, &stamp)
	if stamp.EmittedAtMs < 1e12 {
		c.t.Errorf("no time in %s", m.Raw)
	}
	return e
}

func (c *user) decode(raw json.RawMessage, v any) {
	c.t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		c.t.Fatalf("%s: %v", raw, err)
	}
}

// nextDelta waits for the next output of a process.
func (c *user) nextDelta(handle string) (d delta, data string) {
	c.t.Helper()
	m := c.Await("output of "+handle, func(m tethertest.Message) bool { return about(m, "process/outputDelta", handle) })
	c.decode(m.Params, &d)
	b, err := base64.StdEncoding.DecodeString(d.DeltaBase64)
	if err != nil {
		c.t.Fatal(err)
	}
	return d, string(b)
}

// until collects the output of a process until it contains text.
func (c *user) until(handle, text string) string {
	c.t.Helper()
	var all strings.Builder
	for !strings.Contains(all.String(), text) {
		_, data := c.nextDelta(handle)
		all.WriteString(data)
	}
	return all.String()
}

// write writes to a process.
func (c *user) write(handle, text string) tethertest.Message {
	c.t.Helper()
	return c.Call("process/writeStdin", j{"processHandle": handle, "deltaBase64": base64.StdEncoding.EncodeToString([]byte(text))})
}

// refused checks for an error.
func refused(t testing.TB, what string, m tethertest.Message, code int, message string) {
	t.Helper()
	if m.Error == nil || m.Error.Code != code || m.Error.Message != message {
		t.Errorf("%s: got %s, want %d %q", what, m.Raw, code, message)
	}
}

// accepted checks for an empty result.
func accepted(t testing.TB, what string, m tethertest.Message) {
	t.Helper()
	if m.Error != nil || string(m.Result) != "{}" {
		t.Errorf("%s: got %s, want {}", what, m.Raw)
	}
}

// pid waits for the pid that a script has written to a file.
func pid(t testing.TB, file string) int {
	t.Helper()
	var n int
	tethertest.Eventually(t, func() (err error) {
		text, err := os.ReadFile(file)
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err
	})
	return n
}

// gone waits until a process has ended. A zombie has ended.
func gone(t testing.TB, pid int) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		if alive(pid) {
			return errors.New("process " + strconv.Itoa(pid) + " is alive")
		}
		return nil
	})
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
