//go:build unix

package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// randomFile makes a file of n bytes and returns its path and digest.
func randomFile(t *testing.T, n int) (path, digest string) {
	t.Helper()
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(data)
	path = filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return path, hex.EncodeToString(sum[:])
}

// dialRef connects a client that behaves as the reference's.
func dialRef(t *testing.T, url string) *tethertest.RefClient {
	t.Helper()
	c, err := tethertest.DialRef(t.Context(), url, tethertest.RefOptions{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func awaitRef(t *testing.T, p *tethertest.RefProcess) tethertest.RefResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // enough for a very busy machine
	defer cancel()
	result, err := p.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// rateScript prints a file in pieces of a megabyte, 20 per second, and exits with
// 7.
const rateScript = `i=0; while [ $i -lt $N ]; do dd if=$FILE bs=1000000 skip=$i count=1 2>/dev/null; sleep 0.045; i=$((i+1)); done; exit 7`

func TestOutageWhileOutputFlows(t *testing.T) {
	t.Parallel()
	const megabytes = 20*outageSeconds + 10
	file, digest := randomFile(t, megabytes*1_000_000)
	s := tethertest.StartServer(t, server.Config{})
	cable := tethertest.LayCable(t, s.URL)
	c := dialRef(t, cable.URL())
	begun := make(chan struct{}, 1)
	p, err := c.Start(t.Context(), tethertest.RefStart{
		ID: "p", Argv: []string{"/bin/sh", "-c", rateScript}, Env: map[string]string{"FILE": file, "N": fmt.Sprint(megabytes)},
		OnOutput: func(uint64, string, []byte) {
			select {
			case begun <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	cable.CutFor(outageSeconds * time.Second)
	result := awaitRef(t, p)
	if out := result.Streams["stdout"]; out.SHA256 != digest || result.ExitCode != 7 {
		t.Errorf("got %d bytes, exit code %d; the bytes are right: %v", out.Bytes, result.ExitCode, out.SHA256 == digest)
	}
	if c.Recoveries() == 0 {
		t.Error("the connection was never lost")
	}
}

func TestManyCutsWhileOutputFlows(t *testing.T) {
	t.Parallel()
	const megabytes, cuts = 20, 5
	file, digest := randomFile(t, megabytes*1_000_000)
	gate := filepath.Join(t.TempDir(), "gate") // the second half waits for it
	s := tethertest.StartServer(t, server.Config{})
	cable := tethertest.LayCable(t, s.URL)
	c := dialRef(t, cable.URL())
	p, err := c.Start(t.Context(), tethertest.RefStart{
		ID: "p", Argv: []string{"/bin/sh", "-c", "(N=$((N/2)); " + rateScript + "); until [ -e $GATE ]; do sleep 0.02; done; " + strings.Replace(rateScript, "i=0", "i=$((N/2))", 1)},
		Env: map[string]string{"FILE": file, "N": fmt.Sprint(megabytes), "GATE": gate},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); p.Wait(context.WithoutCancel(t.Context())) }()
	every := time.NewTicker(150 * time.Millisecond)
	defer every.Stop()
	for cutting, done := true, 0; cutting; {
		select {
		case <-every.C:
			if c.Recoveries() < done {
				continue // the client has not reconnected yet
			}
			if done++; done == cuts {
				if err := os.WriteFile(gate, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			cable.CutFor(10 * time.Millisecond)
		case <-ended:
			cutting = false
		}
	}
	result := awaitRef(t, p)
	if out := result.Streams["stdout"]; out.SHA256 != digest || result.ExitCode != 7 {
		t.Errorf("got %d bytes, exit code %d; the bytes are right: %v", out.Bytes, result.ExitCode, out.SHA256 == digest)
	}
	if c.Recoveries() < cuts {
		t.Errorf("only %d recoveries", c.Recoveries())
	}
}

// cut drops a client's connection and resumes its session on a new one.
func cut(t *testing.T, url string, c *tethertest.Client, hello tethertest.Hello) *tethertest.Client {
	t.Helper()
	c.Close()
	again := tethertest.Dial(t, url)
	if got := again.Handshake(hello.SessionID); got != hello {
		t.Errorf("resumed as %+v, was %+v", got, hello)
	}
	return again
}

func TestCutSessionIsResumed(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Command("p", []string{"sleep", "60"}, nil))
	c = cut(t, s.URL, c, hello)
	if p, err := c.Listed("p"); err != nil || p.State != "running" {
		t.Errorf("process: %+v, %v", p, err)
	}
	if !c.Terminate("p") {
		t.Error("the process does not run any more")
	}
}

func TestWritesHappenOnceAcrossAResume(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
	c.Write("p", "w", "once\n")
	c = cut(t, s.URL, c, hello)
	if status := c.Write("p", "w", "once\n"); status != "accepted" {
		t.Errorf("repeat: %q", status)
	}
	c.Must("tether/process/closeStdin", map[string]any{"processId": "p"}, nil)
	c.Read("p", 0, map[string]any{"maxBytes": 0}) // requests the notifications
	text := ""
	for a := (tethertest.ReadAnswer{NextSeq: 1}); !a.Closed; {
		a = c.Read("p", a.NextSeq-1, map[string]any{"waitMs": 10_000})
		for _, chunk := range a.Chunks {
			text += string(chunk.Chunk)
		}
	}
	if text != "once\n" {
		t.Errorf("cat printed %q", text)
	}
}

func TestDroppedPollDelaysNoResume(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Command("p", []string{"sleep", "60"}, nil))
	c.Ask("process/read", map[string]any{"processId": "p", "waitMs": 60_000})
	c.Must("environment/status", nil, nil) // the poll has been read
	dropped := time.Now()
	cut(t, s.URL, c, hello)
	if took := time.Since(dropped); took > 30*time.Second {
		t.Errorf("the resume took %v", took)
	}
	s.Stop()
	if took := time.Since(dropped); took > 30*time.Second {
		t.Errorf("the poll went on for %v", took)
	}
}

// printedWhileAway starts a process p that prints size bytes and exits with 3 while its client has no connection, and returns the id of
// the session.
func printedWhileAway(t *testing.T, url string, size int) (session string) {
	t.Helper()
	c := tethertest.Dial(t, url)
	hello := c.Handshake("")
	c.Start(tethertest.Shell("p", fmt.Sprintf("read x; head -c %d /dev/zero; exit 3", size), map[string]any{"pipeStdin": true}))
	c.Write("p", "1", "go\n")
	c.Close()
	observer := tethertest.Connect(t, url)
	tethertest.Eventually(t, func() error {
		if p, err := observer.Listed("p"); err != nil || p.State != "closed" {
			return fmt.Errorf("process is %+v, %v", p, err)
		}
		return nil
	})
	return hello.SessionID
}

// The reference client gives a process up at a megabyte of notifications that arrive before it has processed the first answer after a
// resume. Before that, the server waits until the client has answered a ping, however slow the client is.
func TestPauseAfterResume(t *testing.T) {
	const size, parked = 3 << 20, 1 << 20
	s := tethertest.StartServer(t, server.Config{})
	session := printedWhileAway(t, s.URL, size)
	ws, err := tethertest.DialWS(t.Context(), s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	pushed, total, atPing := 0, 0, 0
	ws.OnPing = func([]byte) { // it is answered behind this
		if atPing == 0 {
			atPing = pushed
		}
	}
	for _, message := range []string{
		`{"id":1,"method":"initialize","params":{"clientName":"test","resumeSessionId":"` + session + `"}}`,
		`{"method":"initialized"}`,
		`{"id":2,"method":"process/read","params":{"processId":"p","afterSeq":null,"maxBytes":null,"waitMs":0}}`,
	} {
		if err := ws.WriteText([]byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	for closed := false; !closed; {
		_, message, err := ws.Read()
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Method string
			Params struct{ Chunk []byte }
			Result struct{ Chunks []struct{ Chunk []byte } }
		}
		if err := json.Unmarshal(message, &m); err != nil {
			t.Fatalf("%v in %.100s", err, message)
		}
		for _, chunk := range m.Result.Chunks {
			total += len(chunk.Chunk)
		}
		pushed += len(m.Params.Chunk)
		closed = m.Method == wire.NoteProcessClosed
	}
	if total += pushed; total != size {
		t.Errorf("%d bytes arrived", total)
	}
	if atPing == 0 || atPing >= parked {
		t.Errorf("%d bytes were pushed before a ping", atPing)
	}
}

// The first answer after a resume is short and describes the process as of the end
// of that answer. The rest follows as notifications, from exactly that number.
func TestFirstReadAfterResume(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	const size = 3 << 20
	session := printedWhileAway(t, s.URL, size)
	c := tethertest.Dial(t, s.URL)
	c.Handshake(session)
	first := c.Read("p", 0, map[string]any{"maxBytes": nil, "waitMs": 0})
	if n := first.Bytes(); n == 0 || n > 64<<10 {
		t.Errorf("the first answer holds %d bytes", n)
	}
	if first.Exited || first.Closed || first.ExitCode != nil || first.NextSeq != first.Chunks[len(first.Chunks)-1].Seq+1 {
		t.Errorf("the first answer does not describe its end: next %d, exited %v, closed %v", first.NextSeq, first.Exited, first.Closed)
	}
	out := c.Finish("p", first.NextSeq-1)
	if got := first.Bytes() + len(out.Text["stdout"]); got != size || out.ExitCode != 3 {
		t.Errorf("%d bytes and exit code %d", got, out.ExitCode)
	}
	second := c.Read("p", 0, nil)
	if n := second.Bytes(); n <= 64<<10 || n > 1<<20 || second.Exited || second.Closed {
		t.Errorf("an unbounded read holds %d bytes, exited %v, closed %v", n, second.Exited, second.Closed)
	}
}

func TestResumeWhileAliveIsRefused(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	other := tethertest.Dial(t, s.URL)
	resume := map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID}
	if m := other.Call("initialize", resume); m.Error == nil || m.Error.Code != -32010 {
		t.Fatalf("answered %s", m.Raw)
	}
	c.Must("environment/status", nil, nil)
	c.Close()
	tethertest.Eventually(t, func() error {
		if m := other.Call("initialize", resume); m.Error != nil {
			return m.Error
		}
		return nil
	})
}

// freeze returns a client whose connection transmits nothing any more, and the
// cable that can end that.
func freeze(t *testing.T, url string) (*tethertest.Client, tethertest.Hello, *cable.Cable) {
	t.Helper()
	cable := tethertest.LayCable(t, url)
	c := tethertest.Dial(t, cable.URL())
	hello := c.Handshake("")
	c.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
	cable.Freeze()
	return c, hello, cable
}

func TestTakeoverOfAFrozenConnection(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c, hello, cable := freeze(t, s.URL)
	again := tethertest.Dial(t, s.URL)
	asked := time.Now()
	again.Handshake(hello.SessionID)
	if took := time.Since(asked); took < 400*time.Millisecond || took > 10*time.Second {
		t.Errorf("the takeover took %v", took)
	}
	again.Read("p", 0, nil)
	again.Write("p", "1", "hello")
	if e := again.AwaitEvent("p"); string(e.Chunk) != "hello" {
		t.Errorf("event %+v", e)
	}
	cable.Thaw()
	if err := c.Ended(); err == nil {
		t.Error("the old connection has not ended")
	}
}

// A lost connection is detached from its session at once, within milliseconds, however it
// was lost. The server does not wait for its next ping: that would take longer than the
// limit here, even on a busy machine.
func TestDroppedConnectionDetachesAtOnce(t *testing.T) {
	const limit = 8 * time.Second // pings are sent every 10 s
	s := tethertest.StartServer(t, server.Config{})
	other := tethertest.Connect(t, s.URL)
	for name, drop := range map[string]func(*net.TCPConn){
		"closed": func(c *net.TCPConn) { c.Close() },
		"half":   func(c *net.TCPConn) { c.CloseWrite() },
		"reset": func(c *net.TCPConn) {
			c.SetLinger(0)
			c.Close()
		},
	} {
		c := tethertest.Dial(t, s.URL)
		hello := c.Handshake("")
		c.Start(tethertest.Command("p", []string{"sleep", "1000"}, nil))
		c.Ask("process/read", map[string]any{"processId": "p", "waitMs": 60_000})
		c.Must("environment/status", nil, nil) // the poll waits by now
		drop(c.WS().Conn().(*net.TCPConn))
		dropped := time.Now()
		tethertest.Eventually(t, func() error {
			var list wire.SessionListResult
			if err := wire.Decode(other.Call("tether/session/list", nil).Result, &list); err != nil {
				return err
			}
			for _, one := range list.Sessions {
				if one.SessionID == hello.Tether.PublicID && one.Attached {
					return errors.New("it is attached")
				}
			}
			return nil
		})
		if took := time.Since(dropped); took > limit {
			t.Errorf("%s: the session was detached after %v", name, took)
		}
	}
}

// The description of the executor and the session is the same after a resume.
func TestResumedInitializeIsAnsweredLikeTheFirst(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	ask := map[string]any{"clientName": "test", "resumeSessionId": nil, "tether": map[string]any{"ttlMs": 5000}}
	first := c.Call("initialize", ask)
	var hello tethertest.Hello
	if err := json.Unmarshal(first.Result, &hello); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c.Close()
		c = tethertest.Dial(t, s.URL)
		// Later requests may ask for nothing: the session keeps its time to live.
		again := c.Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID})
		if string(again.Result) != string(first.Result) {
			t.Errorf("the first answer was\n%s\nand after a resume\n%s", first.Result, again.Raw)
		}
	}
}

// When a session is taken over, the polls of the old connection are answered before
// it is closed, so that its client learns from both that the session has moved.
func TestPollsOfAConnectionThatIsTakenOverAreAnswered(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	cable := tethertest.LayCable(t, s.URL)
	c := tethertest.Dial(t, cable.URL())
	hello := c.Handshake("")
	c.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
	var polls [3]int64
	for i := range polls {
		polls[i] = c.Ask("process/read", map[string]any{"processId": "p", "afterSeq": 0, "maxBytes": nil, "waitMs": 60_000})
	}
	c.Must("environment/status", nil, nil) // all of them wait by now
	cable.Freeze()
	again := tethertest.Dial(t, s.URL)
	again.Handshake(hello.SessionID)
	cable.Thaw()
	for _, poll := range polls {
		m := c.Answer(poll)
		if m.Error == nil || m.Error.Code != -32600 || m.Error.Message != "session has been resumed by another connection" {
			t.Errorf("answer to a poll: %s", m.Raw)
		}
	}
	if err := c.Ended(); err == nil || !strings.Contains(err.Error(), "session has been resumed by another connection") {
		t.Errorf("the old connection ended with %v", err)
	}
	again.Read("p", 0, nil)
	again.Write("p", "1", "hello")
	if e := again.AwaitEvent("p"); string(e.Chunk) != "hello" {
		t.Errorf("event %+v", e)
	}
}

func TestCompetingResumes(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	_, hello, _ := freeze(t, s.URL)
	const n = 4
	var rivals [n]*tethertest.Client
	var asks [n]int64
	for i := range rivals {
		rivals[i] = tethertest.Dial(t, s.URL)
		asks[i] = rivals[i].Ask("initialize", map[string]any{"clientName": "rival", "resumeSessionId": hello.SessionID})
	}
	won := 0
	for i, c := range rivals {
		switch m := c.Answer(asks[i]); {
		case m.Error == nil:
			won++
			c.Notify("initialized", nil)
			c.Must("environment/status", nil, nil)
		case m.Error.Code != -32010:
			t.Errorf("rival %d: %s", i, m.Raw)
		}
	}
	if won != 1 {
		t.Errorf("%d rivals have the session", won)
	}
}

func TestExpiredSessionIsGone(t *testing.T) {
	check := tethertest.NothingLeft(t)
	s := tethertest.StartServer(t, server.Config{SessionTTL: 100 * time.Millisecond})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Shell("p", `trap "" TERM HUP; echo $$; sleep 60`, nil))
	var pid int
	fmt.Sscan(string(c.AwaitEvent("p").Chunk), &pid)
	c.Close()
	tethertest.Eventually(t, func() error {
		if syscall.Kill(pid, 0) == nil {
			return fmt.Errorf("process %d is alive", pid)
		}
		return nil
	})
	late := tethertest.Dial(t, s.URL)
	m := late.Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID})
	if m.Error == nil || m.Error.Code != -32600 || m.Error.Message != "unknown session id "+hello.SessionID {
		t.Errorf("answered %s", m.Raw)
	}
	late.Handshake("") // after a failed resume the client may open a new session
	late.Close()
	s.Stop()
	check()
}

// After a resume, a client that does not read gets all notifications after a while. The time is 5 s, so this runs in
// make soak; TestQuietClientIsPushedUnreadProcesses of package session has a clock of its own.
func TestResumedClientThatNeverReads(t *testing.T) {
	tethertest.SoakOnly(t)
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Shell("p", "echo one; read x; echo two; read x", map[string]any{"pipeStdin": true}))
	c.AwaitEvent("p")
	begin := time.Now() // the server's time begins later
	c = cut(t, s.URL, c, hello)
	c.Write("p", "1", "\n")
	const quiet = 4500 * time.Millisecond
	early := func(m tethertest.Message) bool {
		return strings.HasPrefix(m.Method, "process/") && time.Since(begin) < quiet
	}
	if m, err := c.AwaitFor(time.Until(begin.Add(quiet)), early); err == nil {
		t.Fatalf("after %v: %s", time.Since(begin), m.Raw)
	}
	c.Write("p", "2", "\n")
	if out := c.Finish("p", 0); out.Text["stdout"] != "one\ntwo\n" {
		t.Errorf("got %+v", out)
	}
}

// An initialize may still be under way when its connection ends; the session must not stay attached to it.
func TestResumeThatOutlivesItsConnectionDetaches(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	_, hello, _ := freeze(t, s.URL)
	taker := tethertest.Dial(t, s.URL)
	taker.Ask("initialize", map[string]any{"clientName": "taker", "resumeSessionId": hello.SessionID})
	taker.Close() // within the 500 ms that the frozen connection has to answer
	watcher := tethertest.Connect(t, s.URL)
	tethertest.Eventually(t, func() error {
		var list struct {
			Sessions []struct {
				SessionID string
				Attached  bool
			}
		}
		watcher.Must("tether/session/list", nil, &list)
		for _, info := range list.Sessions {
			if info.SessionID == hello.Tether.PublicID && !info.Attached {
				return nil
			}
		}
		return fmt.Errorf("sessions: %+v", list.Sessions)
	})
}
