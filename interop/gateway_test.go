//go:build interop

package interop_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/tethertest"
)

// gatewaysFlag lets the suite run through gateways: `go test -tags interop ./interop -gateways 1`.
var gatewaysFlag = flag.Int("gateways", 0, "how many gateways of a fleet are between clients and each server of tether")

// gatewayFlags are those of a server's flags that are the gateway's if there is one: it authenticates the clients.
var gatewayFlags = []string{"--ws-auth", "--ws-token-file", "--ws-token-sha256", "--ws-shared-secret-file", "--ws-issuer", "--ws-audience", "--ws-max-clock-skew-seconds"}

// splitFlags returns the flags of the gateway, and those of the server behind it. Each flag has a value, unless it is the last one or another
// flag follows.
func splitFlags(args []string) (gateway, host []string) {
	to := &host
	for _, arg := range args {
		if strings.HasPrefix(arg, "--") {
			name, _, _ := strings.Cut(arg, "=")
			if to = &host; slices.Contains(gatewayFlags, name) {
				to = &gateway
			}
		}
		*to = append(*to, arg)
	}
	return gateway, host
}

// startBehindGateways starts a fleet: a hub, gateways, and tether as the only host.
func startBehindGateways(t testing.TB, gateways int, args ...string) *server {
	t.Helper()
	dir, err := os.MkdirTemp(suite.dir, "fleet-")
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "hub")
	hub := startCommand(t, tether, productCommand(t, tether, "hub", "--listen", "nats://127.0.0.1:0", "--state-dir", state))
	fleet := []*server{hub}
	credentials := func(role, name string) string {
		file := filepath.Join(dir, name+".creds")
		if out, err := productCommand(t, tether, "hub", "add-"+role, name, "--out", file, "--state-dir", state).CombinedOutput(); err != nil {
			t.Fatalf("tether hub add-%s: %v\n%s", role, err, out)
		}
		return file
	}
	toGateway, toHost := splitFlags(args)
	gate := credentials("gateway", "gate")
	var urls []string
	for range gateways {
		g := startCommand(t, tether, productCommand(t, tether, append([]string{"gateway", "--nats", hub.url, "--creds", gate}, toGateway...)...))
		urls = append(urls, g.url)
		fleet = append([]*server{g}, fleet...)
	}
	s := startCommand(t, tether, command(t, tether, append([]string{"--listen", "ws://127.0.0.1:0", "--join", hub.url, "--creds", credentials("host", "box"), "--name", "box"}, toHost...)...))
	s.fleet, s.gateways, s.url = fleet, urls, urls[0]
	operator := credentials("operator", "me")
	tethertest.Eventually(t, func() error {
		out, err := productCommand(t, tether, "hosts", "--nats", hub.url, "--creds", operator).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("reachable")) {
			return fmt.Errorf("the host has not joined: %v\n%s", err, out)
		}
		return nil
	})
	return s
}

// address is where clients connect: each connection goes through the next gateway, if there are several.
func (s *server) address(t testing.TB) string {
	t.Helper()
	if len(s.gateways) < 2 {
		return s.url
	}
	var targets []string
	for _, url := range s.gateways {
		targets = append(targets, fleettest.Target(t, url))
	}
	return fleettest.LayRelay(t, targets...).URL()
}
