package gateway_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// Tokens are checked at the gateway, and a client neither resumes nor sees the sessions of another principal.
func TestPrincipalsThroughAGateway(t *testing.T) {
	t.Parallel()
	f := fleettest.Start(t)
	issuer := tethertest.NewIssuer(t)
	gate, other := f.Gateway(issuer.Listen(), ""), f.Gateway(issuer.Listen(), "")
	direct := host(t, f, f.Hosts(), fleettest.HostConfig{Host: fleet.Host{Name: "box"}})
	dial(t, gate.URL, client.Options{Token: issuer.Token("anna")}).Close()
	dial(t, other.URL, client.Options{Token: issuer.Token("anna")}).Close()
	anna := tethertest.DialToken(t, gate.URL, issuer.Token("anna"))
	session := anna.Handshake("")
	anna.Start(tethertest.Shell("p", "read x", map[string]any{"pipeStdin": true}))
	unknown := refusal(t, direct.URL, "", opening("3b241101-e2bb-4255-8caf-4136c566a962"))
	got := refusal(t, other.URL, issuer.Token("berta"), opening(session.SessionID))
	if got.Code != unknown.Code {
		t.Errorf("the session of another principal: %+v", got)
	}
	berta := tethertest.DialToken(t, other.URL, issuer.Token("berta"))
	berta.Handshake("")
	if m := berta.Call("tether/process/list", map[string]any{"allSessions": true}); m.Error == nil && bytes.Contains(m.Raw, []byte(session.Tether.PublicID)) {
		t.Errorf("another principal sees %s", m.Raw)
	}
	anna.Close()
	again := tethertest.DialToken(t, other.URL, issuer.Token("anna"))
	if resumed := again.Handshake(session.SessionID); resumed.SessionID != session.SessionID {
		t.Errorf("%+v", resumed)
	}

	// Scopes travel with the link, too. The gateway takes them from the token and from nowhere else.
	carol := tethertest.DialToken(t, gate.URL, issuer.Token("carol"))
	forged := carol.HandshakeWith(map[string]any{"clientName": "test", "admin": true, "tether": map[string]any{"admin": true, "principal": "anna"}})
	watcher := tethertest.DialToken(t, gate.URL, issuer.Token("anna", "tether:read"))
	looking := watcher.HandshakeWith(map[string]any{"clientName": "test", "readOnly": false, "tether": map[string]any{"readOnly": false}})
	root := tethertest.DialToken(t, other.URL, issuer.Token("root", "tether:admin"))
	admin := root.Handshake("")
	for _, c := range []struct {
		name                        string
		client                      *tethertest.Client
		hello                       tethertest.Hello
		admin, readOnly, sees, ends bool
	}{
		{"a usual token", carol, forged, false, false, false, false},
		{"tether:read", watcher, looking, false, true, true, false},
		{"tether:admin", root, admin, true, false, true, true},
	} {
		var list wire.SessionListResult
		c.client.Must(wire.MethodSessionList, nil, &list)
		sees := slices.ContainsFunc(list.Sessions, func(s wire.SessionInfo) bool { return s.SessionID == session.Tether.PublicID })
		m := c.client.Call(wire.MethodProcessTerminateAny, map[string]any{"sessionId": session.Tether.PublicID, "processId": "p"})
		if c.hello.Tether.Admin != c.admin || c.hello.Tether.ReadOnly != c.readOnly || sees != c.sees || (m.Error == nil) != c.ends {
			t.Errorf("%s: %+v, sees the session: %t, ends its process: %s", c.name, c.hello.Tether, sees, m.Raw)
		}
	}
}
