package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// records returns how many records of sessions the directory has, without those that were removed.
func records(t *testing.T, bus *nats.Conn) (n int) {
	t.Helper()
	answers := bus.NewInbox()
	sub, err := bus.SubscribeSync(answers)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	request := fmt.Sprintf(`{"seq":1,"batch":1000,"next_by_subj":%q}`, fleet.KeySubject(fleet.SessionsBucket, ">"))
	if err := bus.PublishRequest("$JS.API.DIRECT.GET."+fleet.Stream(fleet.SessionsBucket), answers, []byte(request)); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := sub.NextMsg(fleettest.Patience)
		switch {
		case err != nil:
			t.Fatal(err)
		case m.Header.Get("Status") != "":
			return n
		case m.Header.Get("KV-Operation") == "":
			n++
		}
	}
}

// The record of a session is removed when the session ends: by its own client, by another one while it has no client, or because it
// has expired.
func TestRecordsEndWithTheirSessions(t *testing.T) {
	tethertest.SoakOnly(t) // below busy loops it waited in vain for three records, once in nine runs
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	h := host(t, f, gate.Hosts, fleettest.HostConfig{Host: fleet.Host{Name: "box"}, Server: server.Config{SessionTTLMax: 24 * time.Hour}})
	bus := f.Connect(hub.RoleGateway, "reader", "")
	await := func(what string, want int) {
		t.Helper()
		tethertest.Eventually(t, func() error {
			if n := records(t, bus); n != want {
				return fmt.Errorf("%s: %d records, want %d", what, n, want)
			}
			return nil
		})
	}
	day := client.Options{TTL: 24 * time.Hour}
	for range 20 {
		c := dial(t, gate.URL, day)
		if err := c.End(t.Context()); err != nil {
			t.Error(err)
		}
	}
	await("sessions that their clients have ended", 0)

	stays, leaves := dial(t, gate.URL, day), dial(t, gate.URL, day)
	leaves.Close()
	expires := dial(t, gate.URL, client.Options{TTL: time.Millisecond})
	await("one connected, one detached, one that will expire", 3)
	expires.Close()
	await("one has expired", 2)
	if err := stays.EndSession(t.Context(), leaves.PublicID()); err != nil {
		t.Error(err)
	}
	await("one was ended by another client", 1)
	tethertest.Eventually(t, func() error {
		if links := h.Links(); links != 1 {
			return fmt.Errorf("%d links", links)
		}
		return nil
	})
}
