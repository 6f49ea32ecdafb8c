package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/tethertest"
)

// flood opens a session and starts a command that never stops to write.
func flood(t *testing.T, url string) *tethertest.WS {
	t.Helper()
	c, err := tethertest.DialWS(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for _, m := range []string{
		`{"id":1,"method":"initialize","params":{"clientName":"flooded","resumeSessionId":null}}`,
		`{"method":"initialized","params":{}}`,
		`{"id":2,"method":"process/start","params":{"processId":"p","argv":["/bin/sh","-c","yes"],"cwd":"/","tty":false,"env":{}}}`,
	} {
		if err := c.WriteText([]byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// metric returns a value of the page /metrics of a gateway.
func metric(t *testing.T, g *fleettest.Gateway, name string) (n int) {
	t.Helper()
	r, err := http.Get("http" + strings.TrimPrefix(g.URL, "ws") + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	page, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(string(page), "\n"+name+" ")
	if _, err := fmt.Sscan(value, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// expectStop stops a gateway, which must not take long.
func expectStop(t *testing.T, g *fleettest.Gateway) {
	t.Helper()
	stopped := make(chan struct{})
	go func() { // ends with the test, at the latest
		defer close(stopped)
		g.Stop()
	}()
	select {
	case <-stopped:
	case <-time.After(fleettest.Patience / 2):
		t.Error("the gateway does not stop")
	}
}

// A client that does not read cannot hold up the end of its gateway.
func TestGatewayStopsWithoutAClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	awaitHosts(t, gate.URL, "box")
	stuck := flood(t, gate.URL)
	for last, same := 0, 0; same < 5; time.Sleep(20 * time.Millisecond) { // until the gateway waits for the client
		n := metric(t, gate, `tether_gateway_bytes_total{direction="down"}`)
		if same++; n != last || n < 1<<16 {
			last, same = n, 0
		}
	}
	expectStop(t, gate)
	stuck.Close()
}

// In the middle of a flood, the client of a gateway that stops is told to connect again, after a whole frame.
func TestGatewayStopsInAFlood(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	gate := f.Gateway(listen.Config{}, "")
	host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	awaitHosts(t, gate.URL, "box")
	c := flood(t, gate.URL)
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() { // ends with the connection
		for n := 0; ; n++ {
			if _, _, err := c.Read(); err != nil {
				c.Close()
				ended <- err
				return
			}
			if n == 100 {
				close(started)
			}
		}
	}()
	<-started
	expectStop(t, gate)
	var closed *tethertest.CloseError
	if err := <-ended; !errors.As(err, &closed) || closed.Code != 1012 {
		t.Errorf("the connection has ended with %v", err)
	}
}
