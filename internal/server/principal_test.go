//go:build unix

package server_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/observe"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// aboutOthers are the methods that name a session, with their other parameters for a process p.
var aboutOthers = map[string]map[string]any{
	wire.MethodProcessResize:       {"rows": 11, "cols": 22},
	wire.MethodProcessCloseStdin:   {},
	wire.MethodProcessSignalAny:    {"signal": "HUP"},
	wire.MethodProcessWriteAny:     {"chunk": "eAo=", "writeId": "w"},
	wire.MethodProcessTerminateAny: {},
	wire.MethodProcessState:        {},
	wire.MethodProcessSearch:       {},
	wire.MethodProcessReadAny:      {},
	wire.MethodProcessDescribe:     {},
	wire.MethodProcessTakeControl:  {},
	wire.MethodProcessGiveControl:  {},
	wire.MethodProcessObserve:      {"afterSeq": nil},
	wire.MethodProcessList:         {},
	wire.MethodPortList:            {},
	wire.MethodPortOpen:            {"connectionId": "c", "port": 1, "limit": 65536},
	wire.MethodSessionEnd:          {},
}

// with returns the parameters of a method that name a session.
func with(method, session string) map[string]any {
	params := maps.Clone(aboutOthers[method])
	params["sessionId"] = session
	if method != wire.MethodProcessList && method != wire.MethodPortList && method != wire.MethodSessionEnd {
		params["processId"] = "p"
	}
	return params
}

// carriedOut reports whether a request about a session was carried out. The process of these tests does not listen, so no port of it can be opened.
func carriedOut(m tethertest.Message) bool {
	return m.Error == nil || strings.Contains(m.Error.Message, observe.ErrNotInside.Error())
}

// lists returns how many sessions, processes and survivors a client is shown.
func lists(c *tethertest.Client) [3]int {
	var sessions wire.SessionListResult
	var processes wire.ListResult
	c.Must(wire.MethodSessionList, map[string]any{}, &sessions)
	c.Must(wire.MethodProcessList, map[string]any{"sessionId": nil}, &processes)
	return [3]int{len(sessions.Sessions), len(processes.Processes), len(processes.Survivors)}
}

// A client can neither see nor use the sessions of another principal: to every request they look as if they did not exist. It can use
// the other sessions of its own principal.
func TestPrincipalsAreApart(t *testing.T) {
	t.Parallel()
	if named := slices.Sorted(slices.Values(server.MethodsOfOtherSessions())); !slices.Equal(named, slices.Sorted(maps.Keys(aboutOthers))) {
		t.Fatalf("methods that name a session: %q", named)
	}
	issuer := tethertest.NewIssuer(t)
	s := tethertest.StartServerOn(t, issuer.Listen(), server.Config{})
	owner := tethertest.DialToken(t, s.URL, issuer.Token("alice"))
	hello := owner.Handshake("")
	owner.Start(tethertest.Shell("p", "trap 'echo hup' HUP; echo ready; while read x; do echo got $x; done; echo end; while :; do sleep 1000; done", map[string]any{"tty": true}))
	owner.AwaitEvent("p")

	for _, subject := range []string{"bob", ""} {
		other := tethertest.DialToken(t, s.URL, issuer.Token(subject))
		other.Handshake("")
		for method := range aboutOthers {
			m := other.Call(method, with(method, hello.Tether.PublicID))
			unknown := other.Call(method, with(method, "missing"))
			got, _, _ := strings.Cut(string(m.Raw), `,"id"`)
			want, _, _ := strings.Cut(string(unknown.Raw), `,"id"`)
			if m.Error == nil || unknown.Error == nil || got != strings.Replace(want, "missing", hello.Tether.PublicID, 1) {
				t.Errorf("%q, %s: %s; for a session that does not exist: %s", subject, method, m.Raw, unknown.Raw)
			}
		}
		if got := lists(other); got != [3]int{1, 0, 0} {
			t.Errorf("%q sees %v sessions, processes and survivors", subject, got)
		}
		resume := func(id string) tethertest.Message {
			return tethertest.DialToken(t, s.URL, issuer.Token(subject)).Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": id})
		}
		if m := resume(hello.SessionID); m.Error == nil || m.Error.Code != wire.CodeInvalidRequest || m.Error.Message != "unknown session id "+hello.SessionID {
			t.Errorf("%q resumes: %s", subject, m.Raw)
		}
	}
	owner.Must("environment/status", nil, nil) // it was not evicted

	own := tethertest.DialToken(t, s.URL, issuer.Token("alice"))
	own.Handshake("")
	if got := lists(own); got != [3]int{2, 1, 0} {
		t.Errorf("the same principal sees %v sessions, processes and survivors", got)
	}
	ends := []string{wire.MethodProcessSignalAny, wire.MethodProcessTerminateAny, wire.MethodSessionEnd} // each may end the process
	methods := slices.DeleteFunc(slices.Sorted(maps.Keys(aboutOthers)), func(m string) bool { return slices.Contains(ends, m) })
	for _, method := range append(methods, ends...) {
		if m := own.Call(method, with(method, hello.Tether.PublicID)); !carriedOut(m) {
			t.Errorf("the same principal, %s: %s", method, m.Raw)
		}
	}
}

// A client resumes its session with a new token for the same principal. With tokens without sub, clients are not told apart.
func TestResumeByPrincipal(t *testing.T) {
	t.Parallel()
	issuer := tethertest.NewIssuer(t)
	s := tethertest.StartServerOn(t, issuer.Listen(), server.Config{})
	for n, subject := range []string{"alice", ""} {
		c := tethertest.DialToken(t, s.URL, issuer.Token(subject))
		hello := c.Handshake("")
		c.Start(tethertest.Command("p", []string{"cat"}, map[string]any{"pipeStdin": true}))
		c.Close()
		again := tethertest.DialToken(t, s.URL, issuer.Token(subject))
		if resumed := again.Handshake(hello.SessionID); resumed.Tether.PublicID != hello.Tether.PublicID {
			t.Errorf("%q: resumed %s", subject, resumed.Tether.PublicID)
		}
		other := tethertest.DialToken(t, s.URL, issuer.Token(subject))
		other.Handshake("")
		if got := lists(other); got != [3]int{2, 1, 0} {
			t.Errorf("%q (%d): a second client sees %v", subject, n, got)
		}
		write := map[string]any{"sessionId": hello.Tether.PublicID, "processId": "p", "chunk": chunk("x"), "writeId": "1"}
		other.Must(wire.MethodProcessWriteAny, write, nil)
		if got := fmt.Sprint(again.Read("p", 0, map[string]any{"waitMs": 30_000}).Bytes()); got != "1" {
			t.Errorf("%q: the process printed %s bytes", subject, got)
		}
	}
}
