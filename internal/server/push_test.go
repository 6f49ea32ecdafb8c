//go:build unix

package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// If no client takes the output of a process, the process is blocked, and a list
// shows it. Other processes of the session run on, and the process continues when
// its output is read.
func TestBackPressure(t *testing.T) {
	check := tethertest.NothingLeft(t)
	s := tethertest.StartServer(t, server.Config{SpoolLimit: 3 << 20})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	const size = 8 << 20
	mark, gate := filepath.Join(t.TempDir(), "mark"), filepath.Join(t.TempDir(), "gate")
	c.Start(tethertest.Shell("busy", fmt.Sprintf("until [ -e %s ]; do sleep 0.02; done; head -c %d /dev/zero", gate, size), nil))
	c.Start(tethertest.Shell("other", "read x; echo there; read x; echo >"+mark+"; read x", map[string]any{"pipeStdin": true}))
	c.Write("other", "1", "\n")
	c.Close()

	watcher := tethertest.Connect(t, s.URL)
	awaitAlone(t, watcher)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tethertest.Eventually(t, func() error {
		p, err := watcher.Listed("busy")
		if err == nil && (!p.Blocked || p.State != "running" || p.UnsentBytes > 3<<20) {
			err = fmt.Errorf("process is %+v", p)
		}
		return err
	})
	if s.Spools() != 1 {
		t.Errorf("%d spool files, want 1", s.Spools())
	}
	c = tethertest.Dial(t, s.URL)
	c.Handshake(hello.SessionID)
	c.Write("other", "2", "\n") // the client has read nothing yet
	tethertest.Eventually(t, func() error { _, err := os.Stat(mark); return err })
	if p, err := watcher.Listed("busy"); err != nil || !p.Blocked {
		t.Errorf("not blocked any more: %+v, %v", p, err)
	}
	first := c.Read("busy", 0, nil)
	out := c.Finish("busy", first.NextSeq-1)
	if got := first.Bytes() + len(out.Text["stdout"]); got != size || out.ExitCode != 0 {
		t.Errorf("%d bytes and exit code %d", got, out.ExitCode)
	}
	if p, err := watcher.Listed("busy"); err != nil || p.Blocked {
		t.Errorf("still blocked: %+v, %v", p, err)
	}
	watcher.Close()
	c.Close()
	s.Stop()
	check()
}

// Output that was sent to a client that acknowledges is kept until it is
// acknowledged, and counts towards the limit.
func TestOutputIsKeptUntilItIsAcknowledged(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{SpoolLimit: 2 << 20, Retain: 1})
	c := tethertest.Dial(t, s.URL)
	hello := c.HandshakeWith(map[string]any{"clientName": "test", "tether": map[string]any{"acks": true}})
	const size = 5 << 20
	c.Start(tethertest.Shell("p", fmt.Sprintf("head -c %d /dev/zero", size), nil))
	tethertest.Eventually(t, func() error {
		if p, err := c.Listed("p"); err != nil || !p.Blocked || p.SentSeq == 0 || p.UnsentBytes != 0 { // sent, but kept
			return fmt.Errorf("process is %+v, %v", p, err)
		}
		return nil
	})
	c = cut(t, s.URL, c, hello) // all of it was sent and is still kept
	total, last := 0, uint64(0)
	for closed := false; !closed; {
		if last == 0 {
			a := c.Read("p", 0, nil)
			if len(a.Chunks) == 0 || a.Chunks[0].Seq != 1 {
				t.Fatalf("read %+v", a)
			}
			total, last = a.Bytes(), a.NextSeq-1
		} else {
			e := c.AwaitEvent("p")
			if e.Seq != last+1 {
				t.Fatalf("event %d follows %d", e.Seq, last)
			}
			total, last, closed = total+len(e.Chunk), e.Seq, e.Method == "process/closed"
		}
		c.Notify("tether/ack", map[string]any{"processId": "p", "seq": last})
	}
	if total != size {
		t.Errorf("%d bytes", total)
	}
}

// The first notification of a process comes behind the answer to its start.
func TestNotificationsFollowTheStartsAnswer(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	c.Start(tethertest.Command("noise", []string{"cat", "/dev/zero"}, nil)) // keeps the writer busy
	const n = 30
	for i := range n {
		c.Ask("process/start", tethertest.Shell(fmt.Sprint("p", i), "echo x", nil))
	}
	started, closed := map[string]bool{}, 0
	for closed < n {
		m := c.Next()
		var e tethertest.Event
		switch {
		case !c.IsEvent(m, &e):
			var start struct{ ProcessID string }
			unmarshal(t, m.Result, &start)
			started[start.ProcessID] = true
		case e.ProcessID != "noise" && !started[e.ProcessID]:
			t.Fatalf("%s comes before the answer to its start", m.Raw)
		case e.Method == "process/closed":
			closed++
		}
	}
	c.Terminate("noise")
}
