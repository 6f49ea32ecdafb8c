package executor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/executor"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A restoredServer has one session, which it has brought back from an earlier process.
type restoredServer struct{ id string }

func (restoredServer) ServeStream(context.Context, *rpc.WebSocket, server.Origin) bool { return false }
func (restoredServer) Load() (sessions, running int)                                   { return 1, 0 }
func (s restoredServer) SessionIDs() []string                                          { return []string{s.id} }
func (restoredServer) Sandbox() string                                                 { return "" }

// The records that an earlier process of a host has left are removed when the host joins the fleet, except for those of sessions that it still has:
// theirs are removed when these end. Records of other hosts stay.
func TestRecordsOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	f.Gateway(listen.Config{}, "")
	bus := f.Connect(hub.RoleGateway, "reader", "")
	sessions, err := directory.NewSessions(bus)
	if err != nil {
		t.Fatal(err)
	}
	record := func(id, host string) {
		t.Helper()
		if _, err := sessions.Create(t.Context(), fleet.SessionKey(id), fleet.Session{Host: host, Epoch: 3}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 { // more than one page, or one message, has
		record(fmt.Sprint("lost-", i), "box")
	}
	record("restored", "box")
	record("other", "other")
	await := func(what string, ids ...string) {
		t.Helper()
		tethertest.Eventually(t, func() error {
			got := fleettest.Recorded(t, bus)
			for _, id := range ids {
				if !got[fleet.SessionKey(id)] {
					return fmt.Errorf("%s: session %s has no record", what, id)
				}
			}
			if len(got) > len(ids) {
				return fmt.Errorf("%s: %d records, want %v", what, len(got), ids)
			}
			return nil
		})
	}
	e := executor.New(executor.Config{
		Bus: f.Connect(hub.RoleHost, "box", ""), Server: restoredServer{"restored"},
		Host: fleet.Host{Name: "box", Instance: fleet.NewID(), Version: "test", Capacity: 1},
	})
	ctx, leave := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { // ends with ctx
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	await("the host has joined", "restored", "other")
	e.SessionEnded("restored")
	await("its session has ended", "other")
	leave()
	running.Wait()
}
