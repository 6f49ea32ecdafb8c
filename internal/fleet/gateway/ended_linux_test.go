package gateway_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// The record of a session is removed when the session ends: by its own client, by another one while it has no client, or because it
// has expired. A client that comes too late to resume it does not keep the record.
func TestRecordsEndWithTheirSessions(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	h := host(t, f, gate.Hosts, fleettest.HostConfig{Host: fleet.Host{Name: "box"}, Server: server.Config{SessionTTLMax: 24 * time.Hour}})
	bus := f.Connect(hub.RoleGateway, "reader", "")
	sessions, err := directory.NewSessions(bus)
	if err != nil {
		t.Fatal(err)
	}
	await := func(what string, c *client.Client, want bool) {
		t.Helper()
		tethertest.Eventually(t, func() error {
			if got := fleettest.Recorded(t, bus)[fleet.SessionKey(c.SessionID())]; got != want {
				return fmt.Errorf("%s: its session is recorded: %v", what, got)
			}
			return nil
		})
	}
	day := client.Options{TTL: 24 * time.Hour}
	late := dial(t, gate.URL, day)
	if _, _, err := sessions.TakeOver(t.Context(), fleet.SessionKey(late.SessionID()), "", func(d time.Duration) time.Duration { return 2 * d }); err != nil {
		t.Fatal(err) // as for a client that leaves before the gateway has opened a link
	}
	if err := late.End(t.Context()); err != nil {
		t.Error(err)
	}
	await("a client has resumed the session while it ended", late, false)
	for range 20 {
		c := dial(t, gate.URL, day)
		if err := c.End(t.Context()); err != nil {
			t.Error(err)
		}
		await("the client has ended it", c, false)
	}

	stays, leaves := dial(t, gate.URL, day), dial(t, gate.URL, day)
	leaves.Close()
	await("the client is connected", stays, true)
	await("the client has left", leaves, true)
	expires := dial(t, gate.URL, client.Options{TTL: time.Millisecond})
	expires.Close()
	await("it has expired", expires, false)
	if err := stays.EndSession(t.Context(), leaves.PublicID()); err != nil {
		t.Error(err)
	}
	await("another client has ended it", leaves, false)
	await("the client is connected", stays, true)
	tethertest.Eventually(t, func() error {
		if links := h.Links(); links != 1 {
			return fmt.Errorf("%d links", links)
		}
		return nil
	})
}
