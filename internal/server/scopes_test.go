//go:build unix

package server_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// ownOnly are the methods that name no session and do more than look: they act on the session of the client, or on the machine. Together with looking and
// aboutOthers they are all methods, so that a new one cannot be forgotten here.
var ownOnly = []string{
	wire.MethodEnvironmentConfigRead, wire.MethodDiscoverRoots, wire.MethodDiscoverCapabilities, wire.MethodHTTPRequest,
	wire.MethodProcessStart, wire.MethodProcessRead, wire.MethodProcessWrite, wire.MethodProcessSignal, wire.MethodProcessTerminate,
	wire.MethodFsReadFile, wire.MethodFsWriteFile, wire.MethodFsCreateDirectory, wire.MethodFsGetMetadata, wire.MethodFsCanonicalize, wire.MethodFsReadDirectory,
	wire.MethodFsWalk, wire.MethodFsRemove, wire.MethodFsCopy, wire.MethodFsSetAttributes, wire.MethodFsWatchMissing,
	wire.MethodFsOpen, wire.MethodFsReadBlock, wire.MethodFsWriteBlock, wire.MethodFsClose,
	wire.MethodUploadOpen, wire.MethodUploadWrite, wire.MethodUploadStatus, wire.MethodUploadCommit, wire.MethodUploadAbort,
	wire.MethodPortOpen, wire.MethodPortClose, wire.MethodPortListen, wire.MethodPortAccept, wire.MethodPortUnlisten, wire.MethodKeeperUpgrade, wire.MethodReload,
}

// The outcomes of a request that names a process of another principal.
const (
	allowed  = "allowed"
	unknown  = "unknown session"
	readOnly = "read-only"
	itsOwn   = "for its own session" // whatever it is, it concerns no other client
)

// outcome is what a method must do for a client with a scope.
func outcome(method string, admin, looksOnly bool) string {
	_, looks := looking[method]
	_, names := aboutOthers[method]
	switch {
	case looksOnly && !looks, looksOnly && method == wire.MethodConsoleCode:
		return readOnly
	case looksOnly && admin && method == wire.MethodSessionEnd: // only its own
		return readOnly
	case names && admin:
		return allowed
	case names:
		return unknown
	}
	return itsOwn
}

// Each scope lets a client do what it says with the processes of another principal, and no more, with each method.
func TestScopes(t *testing.T) {
	t.Parallel()
	methods := server.Methods()
	listed := slices.Concat(ownOnly, slices.Collect(maps.Keys(looking)), slices.Collect(maps.Keys(aboutOthers)))
	slices.Sort(listed)
	if listed = slices.Compact(listed); !slices.Equal(listed, methods) {
		t.Fatalf("the table has %q, the protocol %q", listed, methods)
	}
	ends := []string{wire.MethodProcessSignalAny, wire.MethodProcessTerminateAny, wire.MethodSessionEnd} // each may end the process
	methods = append(slices.DeleteFunc(methods, func(m string) bool { return slices.Contains(ends, m) }), ends...)

	issuer, path := tethertest.NewIssuer(t), filepath.Join(t.TempDir(), "audit")
	s := tethertest.StartServerOn(t, issuer.Listen(), server.Config{Audit: audit.Config{Target: path}})
	owner := tethertest.DialToken(t, s.URL, issuer.Token("alice"))
	hello := owner.Handshake("")
	owner.Start(tethertest.Shell("p", "trap 'echo hup' HUP; echo ready; while read x; do echo got $x; done; while :; do sleep 1000; done", map[string]any{"tty": true}))
	owner.AwaitEvent("p")

	const read, admin = "tether:read", "tether:admin"
	for _, scopes := range [][]string{nil, {"openid", "email"}, {read}, {read, admin}, {admin}} {
		isAdmin, looksOnly := slices.Contains(scopes, admin), slices.Contains(scopes, read)
		c := tethertest.DialToken(t, s.URL, issuer.Token("root", scopes...))
		mine := c.Handshake("")
		if mine.Tether.Admin != isAdmin || mine.Tether.ReadOnly != looksOnly {
			t.Errorf("%q: %+v", scopes, mine.Tether)
		}
		others := tethertest.DialToken(t, s.URL, issuer.Token("root", scopes...)).Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": hello.SessionID})
		if others.Error == nil || others.Error.Message != "unknown session id "+hello.SessionID {
			t.Errorf("%q resumes the session of another principal: %s", scopes, others.Raw)
		}
		for _, method := range methods {
			params := map[string]any{}
			if aboutOthers[method] != nil {
				params = with(method, hello.Tether.PublicID)
			}
			m := c.Call(method, params)
			got := itsOwn
			switch text := string(m.Raw); {
			case strings.Contains(text, `"reason":"readOnly"`):
				got = readOnly
			case strings.Contains(text, "unknown session id "+hello.Tether.PublicID):
				got = unknown
			case carriedOut(m) && aboutOthers[method] != nil:
				got = allowed
			}
			if want := outcome(method, isAdmin, looksOnly); got != want {
				t.Errorf("%q, %s: %s, want %s: %s", scopes, method, got, want, m.Raw)
			}
		}
		if isAdmin && !looksOnly { // it has ended the session
			continue
		}
		var list wire.SessionListResult
		c.Must(wire.MethodSessionList, nil, &list)
		sees := slices.ContainsFunc(list.Sessions, func(i wire.SessionInfo) bool { return i.SessionID == hello.Tether.PublicID && i.Principal == "alice" })
		names := slices.ContainsFunc(list.Sessions, func(i wire.SessionInfo) bool { return i.Principal != "" })
		if sees != isAdmin || names != isAdmin {
			t.Errorf("%q: %+v", scopes, list)
		}
		if got := lists(c); (got[1] == 1) != isAdmin {
			t.Errorf("%q sees %v sessions, processes and survivors", scopes, got)
		}
	}
	s.Stop()
	if got, want := doneBy(t, path, "root"), []string{"process.signalled", "process.signalled", "process.signalled", "process.taken"}; !slices.Equal(got, want) {
		t.Errorf("the audit log has %q of the administrator, want %q", got, want)
	}
}

// doneBy returns the events of an audit log that name a principal as the one that acts on the session of another, sorted.
func doneBy(t *testing.T, path, principal string) (events []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e audit.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.By == principal && e.Principal == "alice" {
			events = append(events, e.Event)
		} else if e.By != "" {
			t.Errorf("%s", line)
		}
	}
	slices.Sort(events)
	return events
}
