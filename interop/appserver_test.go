//go:build interop

package interop_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// An appExchange is one conversation that is played with both app-servers. Each is started for it and speaks on standard input
// and output. The test compares answers with the texts of errors, exits with all their members, and output per stream. It does not
// compare ids, times, the division of output into deltas, and the user agent. The field differs has the intended differences.
type appExchange struct {
	name    string
	env     []string // in addition
	play    func(p *appPlayer)
	differs []difference
	asRoot  bool // an ordinary user sees something else
}

// TestAppServer plays all exchanges and compares tether with the reference.
func TestAppServer(t *testing.T) {
	t.Parallel()
	for _, group := range [][]appExchange{appHandshakes, appExchanges, appRefusals, appDifferences} {
		for _, x := range group {
			t.Run(x.name, func(t *testing.T) {
				t.Parallel()
				x.run(t)
			})
		}
	}
}

func (x appExchange) run(t *testing.T) {
	exchange{compares: wholeReplies, differs: x.differs, asRoot: x.asRoot}.compareWith(t, func(t *testing.T, who product) []observation {
		p := newAppPlayer(t, who, x.env)
		x.play(p)
		return p.log
	})
}

// An appPlayer is a client of one app-server.
type appPlayer struct {
	*player
	*tethertest.Client
	cmd    *exec.Cmd
	stdin  *os.File
	stderr bytes.Buffer // read only after the server has ended
	dir    string       // cwd of its commands
}

// newAppPlayer starts an app-server, which ends with the test.
func newAppPlayer(t *testing.T, who product, env []string) *appPlayer {
	t.Helper()
	p := &appPlayer{player: &player{t: t, who: who}, dir: t.TempDir()}
	p.cmd = productCommand(t, who, "app-server")
	p.cmd.Env = append(appServerEnv(t), env...)
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.stdin = theirIn, theirOut, &p.stderr, in
	err = p.cmd.Start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		t.Fatal(err)
	}
	p.Client = tethertest.NewLines(t, out, in)
	t.Cleanup(func() { p.end() })
	return p
}

// appServerEnv is the environment of both app-servers. It has no variable that would make the reference sign in. Each has a
// CODEX_HOME of its own: the reference keeps a database there, and two of them that start at the same time disturb each other.
func appServerEnv(t testing.TB) []string {
	home := ownDir(t, "codex")
	if err := os.MkdirAll(home, 0o755); err != nil {
		t.Fatal(err)
	}
	env := []string{"SHELL=/bin/sh", "MY_SECRET=kept", "NODE_REPL_AUTH_TOKEN=forbidden", "CODEX_HOME=" + home}
	for _, entry := range serverEnv() {
		for _, name := range []string{"PATH", "HOME", "XDG_STATE_HOME", "LANG"} {
			if strings.HasPrefix(entry, name+"=") {
				env = append(env, entry)
			}
		}
	}
	return env
}

// end closes the server's input and returns its exit status.
func (p *appPlayer) end() int {
	if p.cmd.ProcessState == nil {
		p.stdin.Close() // a server that listens has none
		kill := time.AfterFunc(10*time.Second, func() { p.cmd.Process.Kill() })
		p.cmd.Wait()
		kill.Stop()
		if p.t.Failed() {
			p.t.Logf("%s said:\n%s", p.who, p.stderr.String())
		}
	}
	return p.cmd.ProcessState.ExitCode()
}

// hello does the handshake.
func (p *appPlayer) hello() { p.helloWith(j{"experimentalApi": true}) }

type j = map[string]any

func (p *appPlayer) helloWith(capabilities j) {
	p.t.Helper()
	p.Must("initialize", j{"clientInfo": j{"name": "interop", "version": "1"}, "capabilities": capabilities}, nil)
	p.Send(`{"method":"initialized"}`)
}

// params start a command in the exchange's directory.
func (p *appPlayer) params(handle string, options j, argv ...string) j {
	params := j{"command": argv, "processHandle": handle, "cwd": p.dir}
	for name, value := range options {
		params[name] = value
	}
	return params
}

// answer notes the answer to a request.
func (p *appPlayer) answer(label string, m tethertest.Message) {
	p.t.Helper()
	p.note(label, p.show(m))
}

func (p *appPlayer) show(m tethertest.Message) string {
	text := string(m.Result)
	if m.Error != nil {
		text = fmt.Sprintf("%d %s", m.Error.Code, m.Error.Message)
	}
	return strings.ReplaceAll(text, p.dir, "DIR")
}

// ask calls and notes the answer.
func (p *appPlayer) ask(label, method string, params any) {
	p.t.Helper()
	p.answer(label, p.Call(method, params))
}

// sh starts a script and notes the answer.
func (p *appPlayer) sh(handle string, options j, script string) {
	p.t.Helper()
	p.ask("spawn "+handle, "process/spawn", p.params(handle, options, "sh", "-c", script))
}

func (p *appPlayer) about(method, handle string) func(tethertest.Message) bool {
	return func(m tethertest.Message) bool {
		var about struct{ ProcessHandle string }
		return m.Method == method && json.Unmarshal(m.Params, &about) == nil && about.ProcessHandle == handle
	}
}

// exit waits for the end of a process and notes it, with its output if that was
// streamed, per stream.
func (p *appPlayer) exit(handle string) {
	p.t.Helper()
	m, err := p.AwaitFor(timeLimit+6*time.Second, p.about("process/exited", handle))
	if err != nil {
		p.note("exit "+handle, "none: "+err.Error())
		return
	}
	var members j
	if err := json.Unmarshal(m.Params, &members); err != nil {
		p.t.Fatal(err)
	}
	var stamp struct{ EmittedAtMs int64 }
	if err := json.Unmarshal(m.Raw, &stamp); err != nil || time.Since(time.UnixMilli(stamp.EmittedAtMs)).Abs() > time.Minute {
		p.t.Errorf("emittedAtMs of %s", m.Raw)
	}
	for _, name := range []string{"stdout", "stderr"} {
		if text, _ := members[name].(string); len(text) > 1000 {
			members[name] = fmt.Sprintf("%d bytes", len(text))
		}
	}
	p.note("exit "+handle, strings.ReplaceAll(canonical(members), p.dir, "DIR"))
	p.streamed(handle)
}

// streamed notes the output that has come so far, per stream.
func (p *appPlayer) streamed(handle string) {
	p.t.Helper()
	type output struct {
		text string
		full bool
	}
	streams := map[string]*output{}
	for {
		m, err := p.AwaitFor(0, p.about("process/outputDelta", handle))
		if err != nil {
			break
		}
		var d struct {
			Stream, DeltaBase64 string
			CapReached          bool
		}
		if err := json.Unmarshal(m.Params, &d); err != nil {
			p.t.Fatal(err)
		}
		data, err := base64.StdEncoding.DecodeString(d.DeltaBase64)
		if err != nil {
			p.t.Error(err)
		}
		s := streams[d.Stream]
		if s == nil {
			s = &output{}
			streams[d.Stream] = s
		}
		if s.full {
			p.t.Errorf("%s after its cap: %s", d.Stream, m.Raw)
		}
		s.text, s.full = s.text+string(data), d.CapReached
	}
	for _, name := range []string{"stdout", "stderr"} {
		if s := streams[name]; s != nil {
			text := s.text
			if len(text) > 1000 {
				text = fmt.Sprintf("%d bytes", len(text))
			}
			p.note("streamed "+handle+" "+name, fmt.Sprintf("%q, cap reached: %t", text, s.full))
		}
	}
}

// until waits until the output of a process contains text, and drops it.
func (p *appPlayer) until(handle, text string) {
	p.t.Helper()
	for all := ""; !strings.Contains(all, text); {
		m := p.Await("output of "+handle, p.about("process/outputDelta", handle))
		var d struct{ DeltaBase64 []byte }
		if err := json.Unmarshal(m.Params, &d); err != nil {
			p.t.Fatal(err)
		}
		all += string(d.DeltaBase64)
	}
}

// run starts a script and notes the answer and its end.
func (p *appPlayer) run(handle string, options j, script string) {
	p.t.Helper()
	p.sh(handle, options, script)
	p.exit(handle)
}

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
