package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/fleet/link"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

func TestMain(m *testing.M) {
	tethertest.StopIgnoringSignals()
	goleak.VerifyTestMain(m)
}

// A host refuses a link of a session with the epoch of another link, or an older one: it was opened before that, and comes late. The
// connection that has the session keeps it, even if it is silent.
func TestOldEpochsAreRefused(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	f.Host(fleettest.HostConfig{Host: fleet.Host{Name: "box"}, Server: server.Config{SessionTTL: time.Minute}})
	fleettest.Await(t, gate.Hosts, "the host has joined", func() bool {
		h, known := gate.Hosts.Get("box")
		return known && h.State == directory.Reachable
	})
	first := tethertest.Dial(t, gate.URL)
	session := first.Handshake("") // epoch 1
	first.Close()
	second := tethertest.Dial(t, gate.URL)
	second.Handshake(session.SessionID) // epoch 2

	bus, id := f.Connect(hub.RoleGateway, "late", ""), fleet.NewID()
	m := link.NewMux(link.Config{Publish: bus.Publish, MaxLinks: 10})
	defer m.Close()
	if _, err := bus.Subscribe(fleet.DownSubjects(id), func(msg *nats.Msg) { m.Receive(msg.Subject, msg.Data) }); err != nil {
		t.Fatal(err)
	}
	host, _ := gate.Hosts.Get("box")
	for _, epoch := range []uint64{0, 1, 2} {
		open, err := json.Marshal(fleet.Open{Session: fleet.SessionKey(session.SessionID), Epoch: epoch, Window: link.DefaultWindow})
		if err != nil {
			t.Fatal(err)
		}
		to := fleet.LinkSubject{Host: "box", Process: host.Process, Gateway: id, Link: fleet.NewID(), Up: true}
		l, err := m.Open(to, link.DefaultWindow, open, bus.Publish)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), fleettest.Patience)
		defer cancel()
		var end *link.EndError
		if err := l.Await(ctx); !errors.As(err, &end) || end.Code != link.Refused {
			t.Errorf("epoch %d: the link has ended with %v", epoch, err)
		}
	}
	readOnly, err := json.Marshal(fleet.Open{ReadOnly: true, Window: link.DefaultWindow})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Open(fleet.LinkSubject{Host: "box", Process: host.Process, Gateway: id, Link: fleet.NewID(), Up: true}, link.DefaultWindow, readOnly, bus.Publish)
	if err != nil {
		t.Fatal(err)
	}
	watcher := tethertest.NewClient(t, l)
	watcher.Handshake("")
	if m := watcher.Call("process/start", tethertest.Command("p", []string{"true"}, nil)); m.Error == nil || !strings.Contains(m.Error.Message, "read-only") {
		t.Errorf("a client that may only look starts a command: %s", m.Raw)
	}
	second.Start(tethertest.Shell("p", "exit 4", nil))
	if out := second.Finish("p", 0); out.ExitCode != 4 {
		t.Errorf("%+v", out)
	}
}
