package tethertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/server"
)

// A lineServer is the server's end of a connection with one message per line.
type lineServer struct {
	t    *testing.T
	out  io.WriteCloser
	sent io.ReadCloser
}

func newLineServer(t *testing.T, handle Handler) (*Conn, *lineServer) {
	r, out := io.Pipe()
	sent, w := io.Pipe()
	c := NewLinesConn(r, w, handle)
	t.Cleanup(func() {
		c.Close()
		sent.Close()
	})
	return c, &lineServer{t, out, sent}
}

func (s *lineServer) say(messages ...string) {
	s.t.Helper()
	if _, err := io.WriteString(s.out, strings.Join(messages, "\n")+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

func hasMethod(name string) func(Message) bool {
	return func(m Message) bool { return m.Method == name }
}

func TestConnKeepsMessagesUntilTaken(t *testing.T) {
	t.Parallel()
	c, s := newLineServer(t, nil)
	s.say(`{"method":"a","params":1}`, `{"method":"b","params":2}`, `{"method":"a","params":3}`)
	ctx := Within(t)
	for _, want := range []string{`b2`, `a1`, `a3`} {
		m, err := c.Take(ctx, hasMethod(want[:1]))
		if got := m.Method + string(m.Params); err != nil || got != want {
			t.Errorf("took %q (%v), want %q", got, err, want)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if m, err := c.Take(over, hasMethod("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("took %s (%v) of nothing", m.Raw, err)
	}
}

// Goroutines that wait for different messages at the same time each get their own.
func TestConnTakesConcurrently(t *testing.T) {
	t.Parallel()
	const takers, each = 8, 100
	c, s := newLineServer(t, nil)
	ctx := Within(t)
	var done sync.WaitGroup
	for i := range takers {
		done.Go(func() {
			for n := range each {
				m, err := c.Take(ctx, hasMethod(fmt.Sprint("m", i)))
				if err != nil || string(m.Params) != fmt.Sprint(n) {
					t.Errorf("message %d of m%d: %s, %v", n, i, m.Raw, err)
					return
				}
			}
		})
	}
	for n := range each {
		for i := range takers {
			s.say(fmt.Sprintf(`{"method":"m%d","params":%d}`, takers-1-i, n))
		}
	}
	done.Wait()
	if kept := c.Kept(); len(kept) != 0 {
		t.Errorf("%d messages are left", len(kept))
	}
}

func TestConnHandlerTakesAndAnswers(t *testing.T) {
	t.Parallel()
	c, s := newLineServer(t, func(c *Conn, m Message) bool {
		if m.Method == "question" {
			if err := c.SendJSON(map[string]any{"id": m.ID, "result": "yes"}); err != nil {
				t.Error(err)
			}
			return true
		}
		return false
	})
	s.say(`{"method":"before"}`, `{"id":"q","method":"question"}`)
	answer := make([]byte, len(`{"id":"q","result":"yes"}`+"\n"))
	if _, err := io.ReadFull(s.sent, answer); err != nil || string(answer) != `{"id":"q","result":"yes"}`+"\n" {
		t.Fatalf("answered %q, %v", answer, err)
	}
	s.say(`{"method":"after"}`)
	if m, err := c.Take(Within(t), hasMethod("after")); err != nil || m.Number != 3 {
		t.Errorf("message %d (%v), want 3", m.Number, err)
	}
	if kept := c.Kept(); len(kept) != 1 || kept[0].Method != "before" {
		t.Errorf("kept %v", kept)
	}
}

// Messages that arrived before the end can be taken after it. A wait for more fails with the reason of the end.
func TestConnEnds(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"EOF": "", "message \"nonsense\"": "nonsense\n"} {
		c, s := newLineServer(t, nil)
		s.say(`{"id":1,"result":{}}`)
		io.WriteString(s.out, last)
		s.out.Close()
		<-c.Ended()
		ctx := Within(t)
		if _, err := c.Answer(ctx, 1); err != nil {
			t.Error(err)
		}
		if _, err := c.Answer(ctx, 1); err == nil || !strings.HasPrefix(err.Error(), name) || c.Err() != err {
			t.Errorf("ended with %v, %v, want %s", err, c.Err(), name)
		}
	}
}

func TestConnDropFailsWaits(t *testing.T) {
	t.Parallel()
	nonsense := errors.New("nonsense")
	c, s := newLineServer(t, func(c *Conn, m Message) bool {
		c.Drop(nonsense)
		return true
	})
	s.say(`{"method":"x"}`)
	if err := c.Wait(Within(t), func() bool { return false }); err != nonsense {
		t.Errorf("the wait ended with %v", err)
	}
	<-c.Ended()
	if c.Err() != nonsense {
		t.Errorf("the connection ended with %v", c.Err())
	}
}

func TestConnOverTransports(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"ws://127.0.0.1:0", "unix://" + filepath.Join(t.TempDir(), "s")} {
		c := Connect(t, StartServerAt(t, url, server.Config{}).URL)
		c.Start(Shell("p", "echo hello", nil))
		if out := c.Finish("p", 0); out.Text["stdout"] != "hello\n" {
			t.Errorf("%s: %+v", url, out)
		}
	}
}
