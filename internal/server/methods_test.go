//go:build unix

package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// onBothTransports runs a test over WebSocket and over stdio.
func onBothTransports(t *testing.T, test func(t *testing.T, c *tethertest.Client)) {
	t.Run("ws", func(t *testing.T) {
		check := tethertest.NothingLeft(t)
		s := tethertest.StartServer(t, server.Config{})
		c := tethertest.Connect(t, s.URL)
		test(t, c)
		c.Close()
		s.Stop()
		check()
	})
	t.Run("stdio", func(t *testing.T) {
		c := tethertest.StartStdio(t, server.Config{})
		c.Handshake("")
		test(t, c)
	})
}

func TestStartWithPlainCwdAndEmptyEnvironment(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		var answer map[string]string
		c.Must("process/start", map[string]any{"processId": "proc-1", "argv": []string{"true"}, "cwd": "/tmp", "env": map[string]string{}, "tty": false}, &answer)
		if answer["processId"] != "proc-1" || answer["sandboxType"] != "none" {
			t.Errorf("start answered %v", answer)
		}
		if out := c.Finish("proc-1", 0); out.ExitCode != 0 || out.Last != 2 {
			t.Errorf("process ended with %+v", out)
		}
	})
}

func TestProcessWithoutStdinSeesItsEnd(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		c.Start(tethertest.Shell("p", "wc -c; sleep 60", nil))
		if status := c.Write("p", "w", "x"); status != "stdinClosed" {
			t.Errorf("write answered %q", status)
		}
		if e := c.AwaitEvent("p"); strings.TrimSpace(string(e.Chunk)) != "0" {
			t.Errorf("wc saw %q on stdin", e.Chunk)
		}
	})
}

func TestWritesHappenOnce(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		c.Start(tethertest.Shell("p", `read a; echo "line:$a"; read b; echo "line:$b"`, map[string]any{"pipeStdin": true}))
		for _, w := range [][2]string{{"write-1", "first\n"}, {"write-1", "first\n"}, {"write-2", "second\n"}} {
			if status := c.Write("p", w[0], w[1]); status != "accepted" {
				t.Errorf("%s: %q", w[0], status)
			}
		}
		if out := c.Finish("p", 0); out.Text["stdout"] != "line:first\nline:second\n" || out.ExitCode != 0 {
			t.Errorf("process ended with %+v", out)
		}
	})
}

func TestWriteIDWithOtherBytesIsRefused(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		c.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
		c.Write("p", "w", "one\n")
		m := c.Call("process/write", map[string]any{"processId": "p", "writeId": "w", "chunk": "dHdvCg=="})
		if m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("answered %s", m.Raw)
		}
		c.Must("tether/process/closeStdin", map[string]any{"processId": "p"}, nil)
		if out := c.Finish("p", 0); out.Text["stdout"] != "one\n" {
			t.Errorf("cat printed %q", out.Text["stdout"])
		}
	})
}

func TestTerminateAnswersRunning(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		c.Start(tethertest.Command("p", []string{"sleep", "60"}, nil))
		if !c.Terminate("p") {
			t.Error("terminate reports that a running process does not run")
		}
		if out := c.Finish("p", 0); out.ExitCode != 128+15 {
			t.Errorf("exit code %d", out.ExitCode)
		}
		if c.Terminate("p") || c.Terminate("missing") {
			t.Error("terminate found something to end")
		}
	})
}

func TestPipelinedRequestsGiveSequentialResults(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		start := c.Ask("process/start", tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
		write := c.Ask("process/write", map[string]any{"processId": "p", "writeId": "1", "chunk": "YQ=="})
		poll := c.Ask("process/read", map[string]any{"processId": "p", "afterSeq": 1, "waitMs": 60_000})
		closing := c.Ask("tether/process/closeStdin", map[string]any{"processId": "p"})
		late := c.Ask("process/write", map[string]any{"processId": "p", "writeId": "2", "chunk": "Yg=="})
		for _, ask := range []struct {
			id   int64
			want string
		}{
			{start, `{"processId":"p","sandboxType":"none"}`}, {write, `{"status":"accepted"}`},
			{closing, `{}`}, {late, `{"status":"stdinClosed"}`},
		} {
			if m := c.Answer(ask.id); string(m.Result) != ask.want {
				t.Errorf("request %d: %s, want %s", ask.id, m.Raw, ask.want)
			}
		}
		c.Answer(poll)
		if out := c.Finish("p", 0); out.Text["stdout"] != "a" {
			t.Errorf("cat printed %q", out.Text["stdout"])
		}
	})
}

func TestLongPollDelaysNoOtherRequest(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		c.Start(tethertest.Command("p", []string{"sleep", "60"}, nil))
		poll := c.Ask("process/read", map[string]any{"processId": "p", "waitMs": 60_000})
		c.Must("environment/status", nil, nil)
		c.Terminate("p")
		var answer tethertest.ReadAnswer
		json.Unmarshal(c.Answer(poll).Result, &answer)
		if !answer.Exited || answer.ExitCode == nil || *answer.ExitCode != 143 {
			t.Errorf("poll answered %+v", answer)
		}
	})
}

// Each of three polls is answered with the output that came after the one before.
func TestThreePollsReturnTheirMarkers(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		c.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
		for i := range uint64(3) {
			poll := c.Ask("process/read", map[string]any{"processId": "p", "afterSeq": i, "maxBytes": nil, "waitMs": 60_000})
			c.Must("environment/status", nil, nil) // by now the poll waits
			marker := fmt.Sprintf("marker %d", i)
			c.Write("p", marker, marker)
			var answer tethertest.ReadAnswer
			json.Unmarshal(c.Answer(poll).Result, &answer)
			if len(answer.Chunks) != 1 || string(answer.Chunks[0].Chunk) != marker || answer.Chunks[0].Seq != i+1 || answer.NextSeq != i+2 || answer.Exited {
				t.Errorf("poll %d answered %+v", i, answer)
			}
		}
		c.Terminate("p")
	})
}

// Requests may carry the context of a trace, and initialized may have any parameters.
func TestTraceAndNullParametersAreIgnored(t *testing.T) {
	for _, initialized := range []string{`{"method":"initialized","params":null}`, `{"method":"initialized"}`, `{"method":"initialized","params":{"x":1}}`} {
		s := tethertest.StartServer(t, server.Config{})
		c := tethertest.Dial(t, s.URL)
		c.Send(`{"id":-7,"method":"initialize","params":{"clientName":"test","resumeSessionId":null},` +
			`"trace":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"vendor=1"}}`)
		if m := c.Answer(-7); m.Error != nil {
			t.Fatalf("initialize: %s", m.Raw)
		}
		c.Send(initialized)
		for i, trace := range []string{`null`, `{}`, `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}`, `{"traceparent":null,"tracestate":"vendor=1"}`} {
			c.Send(fmt.Sprintf(`{"id":%d,"method":"environment/status","params":null,"trace":%s}`, -8-i, trace))
			if m := c.Answer(int64(-8 - i)); m.Error != nil || string(m.Result) != `{"status":"ready"}` {
				t.Errorf("after %s, with the trace %s: %s", initialized, trace, m.Raw)
			}
		}
	}
}

// A start whose connection is lost while it runs finishes, and its process belongs to the
// session, which can be resumed.
func TestStartOutlivesItsConnection(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	starts := &snapClient{t: t, home: t.TempDir(), Client: tethertest.Dial(t, s.URL)}
	starts.setProfile(`read -r <"$HOME/gate"`)
	gate := filepath.Join(starts.home, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	hello := starts.Handshake("")
	starts.Ask("process/start", starts.params("p", "echo here; sleep 60", nil))
	tethertest.Eventually(t, func() error {
		if starts.reads() == 0 {
			return errors.New("the start does not wait at the gate")
		}
		return nil
	})
	starts.Close()
	again := tethertest.Dial(t, s.URL)
	again.Handshake(hello.SessionID)
	open, err := os.OpenFile(gate, os.O_RDWR, 0) // with O_WRONLY it would wait for the shell
	if err == nil {
		defer open.Close()
		_, err = open.WriteString("\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	tethertest.Eventually(t, func() error {
		_, err := again.Listed("p")
		return err
	})
	if a := again.Read("p", 0, map[string]any{"waitMs": 10_000}); a.Bytes() != len("here\n") {
		t.Errorf("read %+v", a)
	}
}

func TestRetriedStartIsTheSameStart(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	marks := filepath.Join(t.TempDir(), "marks")
	params := tethertest.Shell("p", `echo x >>`+marks+`; sleep 60`, map[string]any{"retry": true})
	first, second := c.Ask("process/start", params), c.Ask("process/start", params)
	if a, b := c.Answer(first), c.Answer(second); string(a.Result) != string(b.Result) || a.Error != nil {
		t.Errorf("answers differ: %s, %s", a.Raw, b.Raw)
	}
	tethertest.Eventually(t, func() error {
		if info, err := os.Stat(marks); err != nil || info.Size() == 0 {
			return fmt.Errorf("no mark: %v", err)
		}
		return nil
	})
	for name, other := range map[string]map[string]any{
		"without retry":    tethertest.Shell("p", `echo x >>`+marks+`; sleep 60`, nil),
		"other parameters": tethertest.Shell("p", `sleep 60`, map[string]any{"retry": true}),
	} {
		if m := c.Call("process/start", other); m.Error == nil || m.Error.Code != -32600 {
			t.Errorf("%s: %s", name, m.Raw)
		}
	}
	if text, _ := os.ReadFile(marks); string(text) != "x\n" {
		t.Errorf("the command ran %d times", len(text)/2)
	}
}

func TestIDIsFreeAfterAFailedStart(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	if m := c.Call("process/start", tethertest.Command("p", []string{"/no/such/program"}, nil)); m.Error == nil {
		t.Fatalf("answered %s", m.Raw)
	}
	c.Start(tethertest.Command("p", []string{"true"}, nil))
	c.Finish("p", 0)
	if m := c.Call("process/start", tethertest.Command("p", []string{"true"}, nil)); m.Error == nil || m.Error.Message != "process p already exists" {
		t.Errorf("answered %s", m.Raw)
	}
}

func TestSessionEndKillsBackgroundProcesses(t *testing.T) {
	check := tethertest.NothingLeft(t)
	s := tethertest.StartServer(t, server.Config{SessionTTL: 50 * time.Millisecond})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Shell("p", `setsid sleep 1000 >/dev/null 2>&1 & echo $!; trap "" TERM`, nil))
	out := c.Finish("p", 0)
	var pid int
	if err := json.Unmarshal([]byte(strings.TrimSpace(out.Text["stdout"])), &pid); err != nil {
		t.Fatal(err)
	}
	c.Terminate("p") // after the close: kills no process
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the background process is gone: %v", err)
	}
	c.Close()
	tethertest.Eventually(t, func() error {
		if err := syscall.Kill(pid, 0); err == nil {
			return os.ErrExist
		}
		return nil
	})
	s.Stop()
	check()
}

// Requests about one process keep their order, although none of them waits for the answer to another.
func TestPipelinedInputKeepsItsOrder(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		start := c.Ask("process/start", tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
		for i, text := range []string{"YQ==", "Yg==", "Yw=="} {
			c.Ask("process/write", map[string]any{"processId": "p", "writeId": string(rune('1' + i)), "chunk": text})
		}
		closing := c.Ask("tether/process/closeStdin", map[string]any{"processId": "p"})
		for id := start; id <= closing; id++ {
			if m := c.Answer(id); m.Error != nil {
				t.Errorf("answered %s", m.Raw)
			}
		}
		if out := c.Finish("p", 0); out.Text["stdout"] != "abc" {
			t.Errorf("cat printed %q", out.Text["stdout"])
		}
	})
}

// A request is checked against the state of the handshake at its arrival.
func TestStartBeforeInitializedIsRefused(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	for range 20 {
		c := tethertest.Dial(t, s.URL)
		c.Ask("initialize", map[string]any{"clientName": "test"})
		early := c.Ask("process/start", tethertest.Command("p", []string{"true"}, nil))
		c.Notify("initialized", nil)
		late := c.Ask("process/start", tethertest.Command("p", []string{"true"}, nil))
		if m := c.Answer(early); m.Error == nil || m.Error.Message != "client must send initialized before using exec methods" {
			t.Fatalf("answered %s", m.Raw)
		}
		if m := c.Answer(late); m.Error != nil {
			t.Fatalf("answered %s", m.Raw)
		}
		c.Close()
	}
}

// Requests about a process wait for its start.
func TestRequestsAboutAProcessWaitForItsStart(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		for i := range 10 {
			id := fmt.Sprint("p", i)
			start := c.Ask("process/start", tethertest.Command(id, []string{"cat"}, map[string]any{"pipeStdin": true}))
			var looks []int64
			for _, method := range []string{"tether/process/state", "tether/process/search"} {
				looks = append(looks, c.Ask(method, map[string]any{"processId": id}))
			}
			for _, request := range append(looks, start) {
				if m := c.Answer(request); m.Error != nil {
					t.Errorf("answered %s", m.Raw)
				}
			}
			c.Terminate(id)
		}
	})
}

// Other methods report that the process was terminated. Writes have the error of the
// reference.
func TestInputOfATerminatedProcess(t *testing.T) {
	onBothTransports(t, func(t *testing.T, c *tethertest.Client) {
		c.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
		c.Terminate("p")
		if m := c.Call("tether/process/closeStdin", map[string]any{"processId": "p"}); m.Error == nil || m.Error.Code != -32600 {
			t.Errorf("answered %s", m.Raw)
		}
		m := c.Call("process/write", map[string]any{"processId": "p", "writeId": "w", "chunk": ""})
		if m.Error == nil || m.Error.Code != -32603 || m.Error.Message != "failed to write to process stdin" {
			t.Errorf("answered %s", m.Raw)
		}
	})
}
