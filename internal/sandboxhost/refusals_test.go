package sandboxhost

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// A command that tries many hosts is reported only up to a limit.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := NewRefusals(terminal.NewStatusLine(&out, false))
	for port := range uint16(1000) {
		for range 2 {
			r.tell(refusal{host: "evil\x1b[2J.example", port: port, reason: "not_allowed"})
		}
	}
	lines := strings.Split(out.String(), "\n")
	if n := len(lines) - 1; n != maxRefusals+1 {
		t.Errorf("%d lines", n)
	}
	if strings.Contains(out.String(), "\x1b") || lines[1] != "tether: refused evil?[2J.example:1: no --allow-host matches; allow it with --allow-host evil?[2J.example:1" {
		t.Errorf("%q", lines[1])
	}
	out.Reset()
	r = NewRefusals(terminal.NewStatusLine(&out, false))
	r.WithoutPorts()
	for _, d := range []wire.NetworkDecision{
		{Host: "a.test", Port: 443, Decision: "allow"},
		{Host: "a.test", Port: 443, Decision: "deny", Reason: "not_allowed"},
		{Host: "b.test", Port: 443, Decision: "deny", Reason: "denied"},
		{Host: "c.test", Port: 443, Decision: "deny", Reason: "not_allowed_local"},
		{Host: "d.test", Port: 443, Decision: "deny", Reason: "not_allowed_local", TetherAddress: new("[fd00::1]:443")},
		{Host: "::1", Port: 443, Decision: "deny", Reason: "not_allowed_local"},
		{Host: "e.test", Port: 443, Decision: "ask", Reason: "hm"},
	} {
		r.Decided(d)
	}
	want := `tether: refused a.test:443: no --allow-host matches; allow it with --allow-host a.test
tether: refused b.test:443: --deny-host matches
tether: refused c.test:443: it leads to a private or local address, or to none
tether: refused d.test:443: it leads to fd00::1, a private or local address
tether: refused [::1]:443: it is a private or local address, and no --allow-host is for it alone; allow it with --allow-host ::1
tether: refused e.test:443: the server says hm
`
	if out.String() != want {
		t.Errorf("told\n%swant\n%s", out.String(), want)
	}
}
