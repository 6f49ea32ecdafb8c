//go:build interop

package interop_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/tethertest"
)

// goneWithin bounds the time from what ends a command to its end. It is well below
// the 30 s after which a session without a client ends, and all its processes.
const goneWithin = 15 * time.Second

// A lifeline is a connection that a command and its child hold to the test as long as they run. It shows whether they run without
// asking the executor. Both ignore SIGTERM.
type lifeline struct {
	t        *testing.T
	listener *net.TCPListener
	command  string // connects, leaves a child in the background, and answers
	conn     net.Conn
}

func newLifeline(t *testing.T) *lifeline {
	listener, port := listen(t)
	listener.SetDeadline(time.Now().Add(codexTimeout))
	return &lifeline{t: t, listener: listener, command: fmt.Sprintf(
		`exec bash -c 'trap "" TERM; exec 9<>/dev/tcp/127.0.0.1/%d; sleep 1000 & while read -u 9 line; do echo "got $line" >&9; done'`, port)}
}

// taken waits until the command has connected.
func (l *lifeline) taken() {
	l.t.Helper()
	conn, err := l.listener.Accept()
	if err != nil {
		l.t.Fatalf("the command has not begun: %v", err)
	}
	l.t.Cleanup(func() { conn.Close() })
	l.conn = conn
}

// wantLife checks that the command still answers.
func (l *lifeline) wantLife() {
	l.t.Helper()
	l.conn.SetDeadline(time.Now().Add(goneWithin))
	fmt.Fprintln(l.conn, "word")
	if answer, err := bufio.NewReader(l.conn).ReadString('\n'); answer != "got word\n" {
		l.t.Errorf("the command has answered %q, %v", answer, err)
	}
}

// wantGone checks that the command and its child end.
func (l *lifeline) wantGone() {
	l.t.Helper()
	l.conn.SetDeadline(time.Now().Add(goneWithin))
	if _, err := io.Copy(io.Discard, l.conn); err != nil {
		l.t.Errorf("the command has not ended within %v: %v", goneWithin, err)
	}
}

// TestCodexInterruptedExec: when `codex exec` is interrupted, it terminates its command on the executor before it ends itself.
func TestCodexInterruptedExec(t *testing.T) {
	t.Parallel()
	onProducts(t, func(t *testing.T, who product) {
		life := newLifeline(t)
		s := newCodexSetup(t, who, newModel(t, commands(life.command)))
		ctx, cancel := context.WithTimeout(t.Context(), codexTimeout)
		defer cancel()
		cmd := codexExec(ctx, program(t, ref), s.home, s.cable.URL())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		life.taken()
		events := bufio.NewReader(out)
		for line := ""; !strings.Contains(line, `"item.started"`) || !strings.Contains(line, `"command_execution"`); {
			if line, err = events.ReadString('\n'); err != nil {
				cmd.Wait()
				t.Fatalf("the client has not shown the command: %v\n%s", err, errs.String())
			}
		}
		cmd.Process.Signal(os.Interrupt)
		io.Copy(io.Discard, out)
		if err := cmd.Wait(); err == nil {
			t.Error("the client has ended with exit code 0")
		}
		life.wantGone()
		if calls := s.calls("process/"); !slices.Contains(calls, "process/terminate") {
			t.Errorf("the client has only called %q", calls)
		}
	})
}

// newThread starts the client as editors do, with a thread that may do everything.
func (s *codexSetup) newThread() *appServer {
	s.t.Helper()
	a := &appServer{t: s.t, model: s.model, workspace: s.workspace}
	a.launch(program(s.t, ref), s.home, s.cable.URL())
	a.open("danger-full-access", "never")
	return a
}

// begin starts a turn and returns its id.
func (a *appServer) begin() string {
	a.t.Helper()
	var started struct{ Turn struct{ ID string } }
	reply := a.call("turn/start", map[string]any{"threadId": a.thread, "input": []map[string]any{{"type": "text", "text": "do it"}}})
	if err := json.Unmarshal(reply, &started); err != nil || started.Turn.ID == "" {
		a.t.Fatalf("turn/start: %s", reply)
	}
	return started.Turn.ID
}

// interrupt interrupts a turn and waits for its end.
func (a *appServer) interrupt(turn string) {
	a.t.Helper()
	// The end may be reported before the answer, so this does not use call.
	a.send(map[string]any{"id": "interrupt", "method": "turn/interrupt", "params": map[string]any{"threadId": a.thread, "turnId": turn}})
	for {
		if m := a.next(); m.Method == "turn/completed" {
			if !strings.Contains(string(m.Params), `"status":"interrupted"`) {
				a.t.Errorf("the turn has ended as %s", m.Params)
			}
			return
		}
	}
}

// TestCodexInterruptedTurn: a command that was shown to the user survives the interruption of its turn. It ends when the user ends
// it, or with the client.
func TestCodexInterruptedTurn(t *testing.T) {
	t.Parallel()
	ends := map[string]func(a *appServer){
		"ended by the user": func(a *appServer) {
			a.call("thread/backgroundTerminals/clean", map[string]any{"threadId": a.thread})
		},
		"ended with the client": func(a *appServer) { a.stdin.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sameForTheModel(t, func(t *testing.T, who product) []string { return interruptedTurn(t, who, end) })
		})
	}
}

func interruptedTurn(t *testing.T, who product, end func(a *appServer)) []string {
	life := newLifeline(t)
	s := newCodexSetup(t, who, newModel(t, commands(life.command, "echo again")))
	a := s.newThread()
	turn := a.begin()
	life.taken()
	for a.begun == 0 {
		a.next()
	}
	a.interrupt(turn)
	life.wantLife()

	a.turn()
	shown := s.shown()
	wantShown(t, shown, 1, "aborted by user")
	wantShown(t, shown, 2, "Process exited with code 0", "again\n")
	life.wantLife()

	end(a)
	life.wantGone()
	if links := s.cable.Links(); links != 1 {
		t.Errorf("%d connections, want 1", links)
	}
	return shown
}

// TestCodexInterruptedStart: the user interrupts while the client waits for the answer to a start. The client terminates the
// command, because no later turn could use it.
func TestCodexInterruptedStart(t *testing.T) {
	t.Parallel()
	sameForTheModel(t, func(t *testing.T, who product) []string {
		life := newLifeline(t)
		s := newCodexSetup(t, who, newModel(t, commands(life.command, "echo again")))
		answer := s.cable.On(cable.FromServer, cable.Answer("process/start"), cable.Hold)
		a := s.newThread()
		turn := a.begin()
		life.taken()
		a.interrupt(turn)
		life.wantLife()
		if err := answer.Await(tethertest.Within(t), 1); err != nil { // the command may be faster than the answer
			t.Fatal(err)
		}
		if err := answer.Release(); err != nil {
			t.Fatal(err)
		}
		life.wantGone()

		a.turn()
		shown := s.shown()
		wantShown(t, shown, 1, "aborted by user")
		wantShown(t, shown, 2, "Process exited with code 0", "again\n")
		return shown
	})
}

// TestCodexControlC: the model sends the Ctrl-C character to a running command, which may catch it. Without a terminal the client
// sends a signal instead.
func TestCodexControlC(t *testing.T) {
	t.Parallel()
	tethertest.NeedBubblewrap(t)
	const catches, plain = `trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done`, `echo ready; exec sleep 1000`
	for _, c := range []struct {
		name, script, mode string
		tty                bool
		exit               map[product]int
	}{
		{"terminal", plain, "danger-full-access", true, map[product]int{ref: 1, tether: 130}},
		{"terminal, caught", catches, "danger-full-access", true, map[product]int{ref: 5, tether: 5}},
		{"terminal in a sandbox, caught", catches, "workspace-write", true, map[product]int{ref: 1, tether: 5}},
		{"pipes", plain, "danger-full-access", false, map[product]int{ref: 130, tether: 130}},
		{"pipes, caught", catches, "danger-full-access", false, map[product]int{ref: 5, tether: 5}},
		{"pipes in a sandbox, caught", catches, "workspace-write", false, map[product]int{ref: 130, tether: 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onProducts(t, func(t *testing.T, who product) {
				s := newCodexSetup(t, who, newModel(t, controlC(c.script, c.tty)))
				shown := s.run("--sandbox", c.mode)
				wantShown(t, shown, len(shown), fmt.Sprintf("Process exited with code %d\n", c.exit[who]))
				if all := strings.Join(shown, "\n"); strings.Contains(all, "caught") != (c.exit[who] == 5) {
					t.Errorf("the model was shown:\n%s", all)
				}
				want := []string{"process/start", "process/signal", "process/terminate"}
				if c.tty {
					want[1] = "process/write"
				}
				if got := s.calls("process/"); !slices.Equal(got, want) {
					t.Errorf("the client has called %q, want %q", got, want)
				}
			})
		})
	}
}

// controlC runs the script until it is ready, and interrupts it once.
func controlC(script string, tty bool) func(turn int, outputs []string) modelItem {
	sent := false
	return func(turn int, outputs []string) modelItem {
		if turn == 1 {
			return execCommand(turn, map[string]any{"cmd": script, "login": false, "tty": tty, "yield_time_ms": 500})
		}
		session, running := runningSession(outputs)
		if !running || turn > 6 {
			return say("done")
		}
		if !sent && strings.Contains(strings.Join(outputs, "\n"), "ready") {
			sent = true
			return writeStdin(turn, session, "\x03", 10000)
		}
		return writeStdin(turn, session, "", 5000)
	}
}
