package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// The page /hosts lists the hosts of the fleet, and a client learns which host it has got. A server that is no gateway has no such page.
func TestHostsPage(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	box := host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box", Labels: []string{"gpu"}, Capacity: 4}})
	awaitHosts(t, gate.URL, "box")
	hosts, err := client.Hosts(t.Context(), gate.URL+"/?host=other", client.Options{})
	for i := range hosts {
		hosts[i].Load, hosts[i].Sessions, hosts[i].Sandbox = 0, 0, ""
	}
	want := []wire.FleetHost{{Name: "box", State: wire.HostReachable, Labels: []string{"gpu"}, Capacity: 4, Version: "test"}}
	if err != nil || !reflect.DeepEqual(hosts, want) {
		t.Errorf("%+v, %v", hosts, err)
	}
	if hosts, err := client.Hosts(t.Context(), box.URL, client.Options{}); !errors.Is(err, client.ErrNoGateway) {
		t.Errorf("of a plain server: %+v, %v", hosts, err)
	}
	if name := dial(t, gate.URL, client.Options{}).Host(); name != "box" {
		t.Errorf("through the gateway the host is %q", name)
	}
	if name := dial(t, box.URL, client.Options{}).Host(); name != "" {
		t.Errorf("directly the host is %q", name)
	}
}

// A gateway without a hub asks load balancers to use another one. It is still alive.
func TestReadyPage(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	toHub := fleettest.LayRelay(t, f.HubAddress())
	gate := f.Gateway(listen.Config{}, toHub.Address())
	await := func(status int) {
		t.Helper()
		tethertest.Eventually(t, func() error {
			if got := get(t, gate.URL, "/readyz"); got != status {
				return fmt.Errorf("status %d, want %d", got, status)
			}
			return nil
		})
		if got := get(t, gate.URL, "/healthz"); got != http.StatusOK {
			t.Errorf("healthz: status %d", got)
		}
	}
	await(http.StatusOK)
	toHub.SetAway(true)
	await(http.StatusServiceUnavailable)
	toHub.SetAway(false)
	await(http.StatusOK)
}

// get returns the status of a page.
func get(t *testing.T, gateway, page string) int {
	t.Helper()
	r, err := http.Get(strings.Replace(gateway, "ws://", "http://", 1) + page)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}
