package netproxy

import (
	"io"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// A host cannot turn a plain request into a tunnel if tunnels are refused, if an upstream
// proxy might not see the tunnel, or if the client did not ask.
func TestSwitchRefused(t *testing.T) {
	const wish = "Connection: Upgrade\r\nUpgrade: chat\r\n"
	for name, row := range map[string]struct {
		mode     netpolicy.Mode
		upstream bool
		wish     string
	}{
		"limited":  {mode: netpolicy.Limited, wish: wish},
		"upstream": {upstream: true, wish: wish},
		"unasked":  {},
		"another":  {wish: strings.Replace(wish, "chat", "talk", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			host := newRecorder(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n")
			cfg := Config{Resolve: loopback}
			if row.upstream {
				cfg.Upstream = []string{"HTTP_PROXY=http://127.0.0.1:" + host.port}
			}
			s := names()
			s.Mode = row.mode
			h := newHTTPTest(t, s, cfg)
			c := h.dial()
			io.WriteString(c, "GET http://x.ok.example:"+host.port+"/ HTTP/1.1\r\nHost: x\r\n"+row.wish+"\r\n")
			status := make([]byte, len("HTTP/1.1 502 "))
			if _, err := io.ReadFull(c, status); err != nil || string(status) != "HTTP/1.1 502 " {
				t.Errorf("answer %q, %v", status, err)
			}
			host.stop() // its connection is closed, although the process and its connection go on
			seen := host.seen()
			if len(seen) != 1 || strings.Contains(seen[0], "chat") {
				t.Errorf("the host got %q", seen)
			}
		})
	}
}
