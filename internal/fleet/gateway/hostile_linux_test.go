package gateway_test

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/frames"
)

// hostileHost joins the fleet with valid credentials, and then does with the links of a gateway what a test says.
func hostileHost(t *testing.T, f *fleettest.Fleet, gate *fleettest.Gateway, serve func(*link.Link)) {
	t.Helper()
	h := fleet.Host{Name: "evil", Instance: fleet.NewID(), Process: fleet.NewID(), Version: "test", Capacity: 1}
	bus := f.Connect(hub.RoleHost, h.Name, "")
	mux := link.NewMux(link.Config{Publish: bus.Publish, MaxLinks: 100, Accept: func(l *link.Link, open []byte) { go serve(l) }}) // ends with the link
	t.Cleanup(mux.Close)
	if _, err := bus.Subscribe(fleet.UpSubjects(h.Name, h.Process), func(m *nats.Msg) { mux.Receive(m.Subject, m.Data) }); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(fleettest.Patience)
	for _, err := directory.Claim(t.Context(), bus, h); err != nil; _, err = directory.Claim(t.Context(), bus, h) {
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for metric(t, gate, `tether_gateway_hosts{state="reachable"}`) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the gateway does not know the host")
		}
	}
}

// ask opens a connection, sends initialize, and returns it.
func ask(t *testing.T, url string) *tethertest.WS {
	t.Helper()
	c, err := tethertest.DialWS(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.WriteText([]byte(`{"id":1,"method":"initialize","params":{"clientName":"test","resumeSessionId":null}}`)); err != nil {
		t.Fatal(err)
	}
	return c
}

// A host that sends a note which the gateway refuses in the middle of a frame does not get a close frame into that frame.
func TestNoCloseFrameInsideAFrame(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	hostileHost(t, f, gate, func(l *link.Link) {
		l.Write([]byte{0x81, 10, 'h', 'a', 'l', 'f'})
		l.Note([]byte("no JSON"))
	})
	c := ask(t, gate.URL)
	var got []byte
	for b := make([]byte, 1); c.ReadRaw(b) == nil; {
		got = append(got, b...)
	}
	if string(got) != "\x81\nhalf" && len(got) > 0 {
		t.Errorf("the client gets %q", got)
	}
}

// A host cannot send a client or its terminal arbitrary bytes as the reason of a close frame.
func TestReasonOfAHostIsPlainText(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"\x1b[2J\x00\xff\n", strings.Repeat("ä", 500), "x" + strings.Repeat("ä", 500)} {
		f := fleettest.Start(t)
		gate := f.Gateway(listen.Config{}, "")
		hostileHost(t, f, gate, func(l *link.Link) { l.Abort(link.Lost, reason) })
		_, _, err := ask(t, gate.URL).Read()
		closed, ok := err.(*tethertest.CloseError)
		if !ok || closed.Code != 1013 {
			t.Fatalf("the client is told %v", err)
		}
		if !utf8.ValidString(closed.Reason) || strings.ContainsFunc(closed.Reason, unicode.IsControl) {
			t.Errorf("the client is told %q", closed.Reason)
		}
	}
}

// Before its first message, a client gets the same answers to control frames from a gateway as from a server.
func TestControlFramesBeforeInitialize(t *testing.T) {
	t.Parallel()
	gate := fleettest.Start(t).Gateway(listen.Config{}, "")
	for _, url := range []string{gate.URL, tethertest.StartServer(t, server.Config{}).URL} {
		c, err := tethertest.DialWS(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.Conn().SetDeadline(time.Now().Add(fleettest.Patience))
		for _, frame := range []frames.Frame{frames.Pong(nil), frames.Ping([]byte("there?")), frames.Close(1000, "never mind")} {
			if err := c.WriteRaw(frame.FromClient().Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		want := append(frames.Pong([]byte("there?")).Bytes(), frames.Close(1000, "").Bytes()...)
		got := make([]byte, len(want))
		if err := c.ReadRaw(got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %q %v", url, got, err)
		}
	}
}

// A client that leaves is forgotten, whether its host has answered or not, and whether the host ends the link or not.
func TestClientLeavesAHostThatDoesNotEndLinks(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string][]byte{"silent": nil, "has answered": frames.Text([]byte("{}")).Bytes()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleettest.Start(t)
			gate := f.Gateway(listen.Config{}, "")
			opened, ended := make(chan struct{}, 1), make(chan struct{}, 1)
			hostileHost(t, f, gate, func(l *link.Link) {
				l.Write(answer)
				opened <- struct{}{}
				<-l.Done()
				ended <- struct{}{}
			})
			c := ask(t, gate.URL)
			<-opened
			if answer != nil {
				if _, _, err := c.Read(); err != nil {
					t.Fatal(err)
				}
			}
			c.Close()
			select {
			case <-ended:
			case <-time.After(fleettest.Patience / 2):
				t.Error("the gateway still has a link for the client")
			}
		})
	}
}
