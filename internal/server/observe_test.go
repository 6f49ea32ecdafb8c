//go:build unix

package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

func unmarshal(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

type observed struct {
	ObserveID, Seq, FirstSeq uint64
	Chunk                    []byte
}

func awaitObserved(t *testing.T, c *tethertest.Client) (method string, o observed) {
	t.Helper()
	m := c.Await("something observed", func(m tethertest.Message) bool { return strings.HasPrefix(m.Method, "tether/process/") })
	unmarshal(t, m.Params, &o)
	return m.Method, o
}

// An observer sees the same events as the client, and its end changes nothing.
func TestObserverSeesEverything(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Shell("p", "head -c 500000 /dev/zero; read x", map[string]any{"pipeStdin": true}))
	watcher := tethertest.Connect(t, s.URL)
	watch := map[string]any{"sessionId": hello.Tether.PublicID, "processId": "p"}
	watcher.Must("tether/process/observe", watch, nil)
	gone := tethertest.Connect(t, s.URL)
	gone.Must("tether/process/observe", watch, nil)
	gone.Close()
	total, last := 0, uint64(0)
	for total < 500_000 {
		_, o := awaitObserved(t, watcher)
		if o.Seq != last+1 {
			t.Fatalf("event %d follows %d", o.Seq, last)
		}
		total, last = total+len(o.Chunk), o.Seq
	}
	tethertest.Eventually(t, func() error {
		if p, err := c.Listed("p"); err != nil || p.Observers != 1 {
			return fmt.Errorf("%+v, %v", p, err)
		}
		return nil
	})
	c.Write("p", "1", "\n")
	if out := c.Finish("p", 0); len(out.Text["stdout"]) != 500_000 {
		t.Errorf("the client got %d bytes", len(out.Text["stdout"]))
	}
	for _, want := range []string{"tether/process/exited", "tether/process/closed"} {
		if got, _ := awaitObserved(t, watcher); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	tethertest.Eventually(t, func() error {
		if p, err := c.Listed("p"); err != nil || p.Observers != 0 {
			return fmt.Errorf("%+v, %v", p, err)
		}
		return nil
	})
}

func TestObserverThatFellBehindGetsAGap(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{Retain: 1})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Shell("p", "head -c 3000000 /dev/zero", nil))
	out := c.Finish("p", 0)
	watcher := tethertest.Connect(t, s.URL)
	tethertest.Eventually(t, func() error { // the last write is counted a moment after it arrives
		if p, err := c.Listed("p"); err != nil || p.SentSeq != out.Last {
			return fmt.Errorf("%+v, %v", p, err)
		}
		return nil
	})
	watcher.Must("tether/process/observe", map[string]any{"sessionId": hello.Tether.PublicID, "processId": "p", "afterSeq": 0}, nil)
	method, o := awaitObserved(t, watcher)
	if method != "tether/process/evicted" || o.FirstSeq < 2 {
		t.Fatalf("%s %+v", method, o)
	}
	for want := o.FirstSeq; want <= out.Last; want++ {
		if _, o := awaitObserved(t, watcher); o.Seq != want {
			t.Fatalf("event %d, want %d", o.Seq, want)
		}
	}
}

func TestObserversAreLimited(t *testing.T) {
	const limit = 64
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Command("p", []string{"sleep", "60"}, nil))
	watch := map[string]any{"sessionId": hello.Tether.PublicID, "processId": "p"}
	crowd := tethertest.Connect(t, s.URL)
	for range limit {
		crowd.Must("tether/process/observe", watch, nil)
	}
	if m := c.Call("tether/process/observe", watch); m.Error == nil || m.Error.Code != -32600 || !strings.HasPrefix(m.Error.Message, "limit reached: 64 ") {
		t.Errorf("answered %s", m.Raw)
	}
	crowd.Must("tether/process/unobserve", map[string]any{"observeId": 7}, nil)
	c.Must("tether/process/observe", watch, nil)
	crowd.Close()
	tethertest.Eventually(t, func() error {
		if p, err := c.Listed("p"); err != nil || p.Observers != 1 {
			return fmt.Errorf("%+v, %v", p, err)
		}
		return nil
	})
}

// However many events there are, none is sent before the answer that names the
// observation, and none after the answer that ends it.
func TestObservationLiesBetweenItsAnswers(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Dial(t, s.URL)
	hello := c.Handshake("")
	c.Start(tethertest.Shell("p", "while :; do echo x; sleep 0.002; done", nil))
	c.AwaitEvent("p")
	watcher := tethertest.Connect(t, s.URL)
	for i := range tethertest.Scaled(40, 200) {
		id := watcher.Ask("tether/process/observe", map[string]any{"sessionId": hello.Tether.PublicID, "processId": "p"})
		m := watcher.Next()
		if string(m.ID) != fmt.Sprint(id) || m.Error != nil {
			t.Fatalf("%d: %s before the answer", i, m.Raw)
		}
		var o observed
		unmarshal(t, m.Result, &o)
		awaitObserved(t, watcher)
		watcher.Ask("tether/process/unobserve", map[string]any{"observeId": o.ObserveID})
		for watcher.Next().Method != "" { // until the answer
		}
	}
	c.Terminate("p")
}
