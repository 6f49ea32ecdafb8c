package cable_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// layToServer makes a cable to a real server.
func layToServer(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, ctx: timeout(t), seen: new(recorder)}
	var err error
	r.Cable, err = cable.Lay(context.Background(), cable.Config{
		Target: tethertest.StartServer(t, server.Config{}).URL, Tap: r.seen.tap, Notice: r.seen.notice,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// F31: the server has accepted a write and its answer is lost. The repetition with
// the same id reaches the process once.
func TestServerWriteWithLostAnswer(t *testing.T) {
	r := layToServer(t)
	c := tethertest.Dial(t, r.URL())
	hello := c.Handshake("")
	c.Start(tethertest.Shell("p", `read a; echo "got $a"; read b || echo end`, map[string]any{"pipeStdin": true}))
	lost := r.On(cable.FromServer, cable.Answer("process/write").Process("p"), cable.SeverBefore)
	c.Ask("process/write", map[string]any{"processId": "p", "writeId": "w1", "chunk": "aGkK"})
	c.Ended()
	r.await(lost, 1)
	if m := lost.Messages()[0]; !strings.Contains(string(m.Result), "accepted") {
		t.Errorf("the lost answer is %s", m.Raw)
	}

	c = tethertest.Dial(t, r.URL())
	c.Handshake(hello.SessionID)
	if status := c.Write("p", "w1", "hi\n"); status != "accepted" {
		t.Errorf("the repetition is %s", status)
	}
	read := c.Read("p", 0, nil) // the rest is pushed
	got := ""
	for _, chunk := range read.Chunks {
		got += string(chunk.Chunk)
	}
	c.Must("tether/process/closeStdin", map[string]any{"processId": "p"}, nil)
	if got += c.Finish("p", read.NextSeq-1).Text["stdout"]; got != "got hi\nend\n" {
		t.Errorf("output %q", got)
	}
	if r.Links() != 2 {
		t.Errorf("links: %d", r.Links())
	}
}

// F47: one notification is lost, and process/read fills the gap.
func TestServerGap(t *testing.T) {
	r := layToServer(t)
	c := tethertest.Connect(t, r.URL())
	lost := r.On(cable.FromServer, cable.Method("process/output").Process("p").Nth(2), cable.Drop)
	c.Start(tethertest.Shell("p", "for i in 1 2 3; do echo $i; read x; done", map[string]any{"pipeStdin": true}))
	c.AwaitEvent("p")
	c.Write("p", "a", "\n")
	r.await(lost, 1)
	c.Write("p", "b", "\n")
	if e := c.AwaitEvent("p"); e.Seq != 3 {
		t.Errorf("received event %d, want 3", e.Seq)
	}
	if a := c.Read("p", 1, nil); len(a.Chunks) < 1 || string(a.Chunks[0].Chunk) != "2\n" {
		t.Errorf("read %+v", a)
	}
	c.Terminate("p")
}

// F08: the client has lost its connection and the server has not. A new connection
// takes the session over, because the old one answers no ping.
func TestServerTakeover(t *testing.T) {
	r := layToServer(t)
	c := tethertest.Dial(t, r.URL())
	hello := c.Handshake("")
	r.Strand(cable.Silent)
	c.Ended()
	c = tethertest.Dial(t, r.URL())
	c.Handshake(hello.SessionID)

	// F07: as long as the old connection answers, the session stays attached to it.
	end := r.Strand(cable.AnswersPings)
	c = tethertest.Dial(t, r.URL())
	m := c.Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID})
	if m.Error == nil || m.Error.Code != -32010 {
		t.Errorf("the answer is %s, want error -32010", m.Raw)
	}
	end()
}

// F06: the server was replaced during the outage.
func TestServerRestart(t *testing.T) {
	r := layToServer(t)
	c := tethertest.Dial(t, r.URL())
	hello := c.Handshake("")
	r.Cut()
	c.Ended()
	if err := r.Aim(tethertest.StartServer(t, server.Config{}).URL); err != nil {
		t.Fatal(err)
	}
	r.Mend()
	c = tethertest.Dial(t, r.URL())
	m := c.Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID})
	if m.Error == nil || !strings.Contains(m.Error.Message, "unknown session id") {
		t.Errorf("the answer is %s, want an unknown session", m.Raw)
	}
}
