package netproxy

import (
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// A denied name is denied in every spelling and by every protocol, and an allowed name is
// reached under its name in ASCII.
func TestInternationalNames(t *testing.T) {
	settings := netpolicy.Settings{AllowLocalBinding: true, Domains: map[string]netpolicy.Access{
		"*": netpolicy.Allow, "bu\u0308cher.example": netpolicy.Deny, "ｅｖｉｌ.example": netpolicy.Deny,
	}}
	host := newRecorder(t, recorderAnswer)
	port, err := strconv.ParseUint(host.port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	h := newHTTPTest(t, settings, Config{Resolve: loopback})
	st := newSocksTest(t, settings, Config{Resolve: loopback}, nil)
	for name, ascii := range map[string]string{
		"bücher.example": "xn--bcher-kva.example", "BU\u0308CHER.example": "xn--bcher-kva.example", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"evil.example": "evil.example", "ｅvil。example": "evil.example",
		"mün\u00adchen.example": "xn--mnchen-3ya.example",
	} {
		status, reply, access := "403 ", socksRefused, netpolicy.Denied
		if strings.HasPrefix(ascii, "xn--mnchen") {
			status, reply, access = "200 ", socksOK, ""
		}
		target := name + ":" + host.port
		for _, send := range []string{
			"GET http://" + target + "/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
			"CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			c := h.dial()
			io.WriteString(c, send)
			got := make([]byte, len("HTTP/1.1 200 "))
			if _, err := io.ReadFull(c, got); err != nil || !strings.HasSuffix(string(got), status) {
				t.Fatalf("%.20q to %q: %q, %v", send, name, got, err)
			}
			c.Close()
			events := h.decisions()
			if last := events[len(events)-1]; last.Query.Host != ascii || last.Decision.Reason != access {
				t.Errorf("%.20q to %q: %+v", send, name, last)
			}
		}
		c, got, _ := st.request(socksConnect, domainAddr(name, uint16(port)))
		c.Close()
		if e := st.event(); got != reply || e.Query.Host != ascii || e.Decision.Reason != access {
			t.Errorf("SOCKS to %q: reply %d, %+v", name, got, e)
		}
	}
	for _, sent := range host.seen() {
		if strings.Contains(sent, "Host:") && !strings.Contains(sent, "Host: xn--mnchen-3ya.example:") {
			t.Errorf("the host was asked %q", sent)
		}
	}
}
