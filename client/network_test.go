package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
	"github.com/tetherexec/tether/wire"
)

// networkParams are the parameters of a start that are about the network.
type networkParams struct {
	Retry                 bool            `json:"retry"`
	Sandbox               json.RawMessage `json:"sandbox"`
	EnforceManagedNetwork bool            `json:"enforceManagedNetwork"`
	ManagedNetwork        json.RawMessage `json:"managedNetwork"`
	NetworkProxy          json.RawMessage `json:"networkProxy"`
}

func networkOf(m scripted.Message) (p networkParams) {
	if err := json.Unmarshal(m.Params, &p); err != nil {
		panic(err)
	}
	return p
}

// If the answer to a start is lost, the repeated start has the same network.
func TestNetworkInRepeatedStart(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	var first, again networkParams
	wait := scripted.Play(t, func() {
		one := s.Accept()
		one.WelcomeWith("S", true, []string{"retryStart", "hostPorts"})
		first = networkOf(one.Expect("process/start"))
		one.Cut()
		two := s.Accept()
		two.WelcomeWith("S", true, []string{"retryStart", "hostPorts"})
		m := two.Expect("process/start")
		again = networkOf(m)
		two.Say(m.Answer(`{"processId":"P","sandboxType":"linuxSeccomp"}`))
		m = two.Expect("process/read")
		two.Say(m.Answer(scripted.ReadAnswer(1, false, false)))
		two.Say(scripted.Events("P", "x1 c2")...)
	})
	c := dial(t, s.URL(), client.Options{})
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P", Network: &client.Network{
		Allow: []string{"example.com", "*.internal:443"}, Deny: []string{"secret.internal"},
		Mode: wire.NetworkModeLimited, AllowLocal: true, Ask: 1500 * time.Millisecond,
	}})
	if exit, err := p.Wait(tethertest.Within(t)); err != nil || exit.Code != 0 {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
	wait()
	if first.Retry || !again.Retry {
		t.Errorf("retry: %t, then %t", first.Retry, again.Retry)
	}
	again.Retry = first.Retry
	if a, b := fmt.Sprintf("%+v", first), fmt.Sprintf("%+v", again); a != b {
		t.Errorf("sent first  %s\nsent second %s", a, b)
	}
	var proxy wire.NetworkProxy
	if err := wire.Decode(first.NetworkProxy, &proxy); err != nil {
		t.Fatal(err)
	}
	set := proxy.Proxy
	want := wire.DomainRules{"example.com": wire.DomainAllow, "*.internal:443": wire.DomainAllow, "secret.internal": wire.DomainDeny}
	if !set.Enabled || !set.EnableSocks5 || set.EnableSocks5UDP || set.DangerouslyAllowAllUnixSockets || !set.AllowLocalBinding ||
		!set.AllowUpstreamProxy || set.Mode != wire.NetworkModeLimited || fmt.Sprint(*set.Domains) != fmt.Sprint(want) ||
		*proxy.PolicyDecisionTimeoutMs != 1500 {
		t.Errorf("networkProxy: %s", first.NetworkProxy)
	}
	var sandbox wire.Sandbox
	if err := wire.Decode(first.Sandbox, &sandbox); err != nil || !sandbox.Disabled() || !first.EnforceManagedNetwork {
		t.Errorf("without a sandbox nothing is enforced: %v, %+v", err, first)
	}
	var managed wire.ManagedNetwork
	if err := wire.Decode(first.ManagedNetwork, &managed); err != nil || !managed.AllowLocalBinding {
		t.Errorf("managedNetwork: %v, %s", err, first.ManagedNetwork)
	}
}

// The client does not send a start to a server that would give the command a wider network.
func TestNetworkNeedsServerSupport(t *testing.T) {
	t.Parallel()
	for _, try := range []struct {
		name     string
		networks bool
		features []string
		pattern  string
		refusal  string // in the error; empty: it is started
	}{
		{"no networks", false, []string{"hostPorts"}, "example.com", "network"},
		{"reference", true, nil, "example.com", ""},
		{"reference, address", true, nil, "2001:db8::1", ""},
		{"reference, brackets", true, nil, "[2001:db8::1]", ""},
		{"reference, port", true, nil, "example.com:443", `"example.com:443"`},
		{"reference, port of an address", true, nil, "[2001:db8::1]:443", `"[2001:db8::1]:443"`},
		{"old tether, port", true, []string{}, "*.example.com:443", `"*.example.com:443"`},
		{"tether, port", true, []string{"hostPorts"}, "*.example.com:443", ""},
	} {
		t.Run(try.name, func(t *testing.T) {
			s := scripted.NewServer(t)
			var got scripted.Message
			wait := scripted.Play(t, func() {
				one := s.Accept()
				one.WelcomeWith("S", try.networks, try.features)
				got = one.Expect("process/start")
				one.Say(got.Answer(`{"processId":"P","sandboxType":"none"}`))
			})
			c := dial(t, s.URL(), client.Options{})
			_, err := c.Start(tethertest.Within(t), client.Command{Argv: []string{"x"}, Dir: "/", ID: "P", Network: &client.Network{Allow: []string{try.pattern}}})
			if try.refusal == "" {
				if wait(); err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, client.ErrUnsupported) || !strings.Contains(err.Error(), try.refusal) {
				t.Errorf("Start: %v", err)
			}
			// The id is free, and this is the first start that the server gets.
			if _, err := c.Start(tethertest.Within(t), client.Command{Argv: []string{"other"}, Dir: "/", ID: "P"}); err != nil {
				t.Error(err)
			}
			wait()
			if p := networkOf(got); p.EnforceManagedNetwork || string(p.NetworkProxy) != "null" || !strings.Contains(string(got.Params), `"other"`) {
				t.Errorf("started %s", got.Params)
			}
		})
	}
}

// decisionNote is the notification about a decision.
func decisionNote(process, decision, host string, port int) string {
	return fmt.Sprintf(`{"method":"network/policyDecision","params":{"processId":%q,"timestamp":"2026-11-15T01:19:11.602Z","scope":"domain",`+
		`"decision":%q,"source":"baseline_policy","reason":"not_allowed","protocol":"http","host":%q,"port":%d,"policyOverride":false}}`, process, decision, host, port)
}

// A slow OnNetworkDecision delays nothing else, and misses only the oldest decisions.
func TestSlowOnNetworkDecision(t *testing.T) {
	t.Parallel()
	const many = 2000
	release, begun := make(chan struct{}), make(chan struct{}, 1)
	s := scripted.NewServer(t)
	wait := scripted.Play(t, func() {
		one := s.Accept()
		one.WelcomeWith("S", true, nil)
		one.Begin()
		one.Begin()
		one.Say(decisionNote("P", "deny", "first", 0))
		<-begun
		one.Say(`{"method":"network/policyDecision","params":{"processId":"P","nonsense":true}}`)
		for i := range many {
			one.Say(decisionNote("P", "deny", "many", i))
		}
		one.Say(decisionNote("other", "allow", "last", 443))
		one.Say(scripted.Events("P", "x1 c2")...)
		one.MayHear() // the end
	})
	var reported, ofProcess []wire.NetworkDecision
	c := dial(t, s.URL(), client.Options{OnNetworkDecision: func(d wire.NetworkDecision) {
		reported = append(reported, d)
		if len(reported) == 1 {
			begun <- struct{}{}
			<-release
		}
	}})
	p := start(t, c, client.Command{Argv: []string{"x"}, ID: "P", Network: &client.Network{
		OnDecision: func(d wire.NetworkDecision) { ofProcess = append(ofProcess, d) },
	}})
	other := start(t, c, client.Command{Argv: []string{"x"}, ID: "other"})
	if exit, err := p.Wait(tethertest.Within(t)); err != nil || exit.Code != 0 { // while OnNetworkDecision still waits
		t.Errorf("Wait: %+v, %v", exit, err)
	}
	if hosts := p.RefusedHosts(); len(hosts) != 16 || hosts[0] != "first:0" || hosts[1] != "many:0" || len(other.RefusedHosts()) > 0 {
		t.Errorf("refused %q", hosts)
	}
	closed := make(chan error, 1)
	go func() { closed <- c.Close() }()
	<-other.Done() // so the client has ended
	close(release)
	if err := <-closed; err != nil { // when it returns, all decisions were reported
		t.Error(err)
	}
	wait()
	if len(reported) < 3 || len(reported) > 300 {
		t.Fatalf("%d decisions were reported", len(reported))
	}
	last := reported[len(reported)-1]
	if reported[0].Host != "first" || last.Host != "last" || last.Decision != "allow" || last.ProcessID != "other" || last.Port != 443 {
		t.Errorf("first %+v\nlast %+v", reported[0], last)
	}
	if next := reported[len(reported)-2]; next.Host != "many" || next.Port != many-1 {
		t.Errorf("the newest of many: %+v", next)
	}
	if len(ofProcess) != len(reported)-1 {
		t.Errorf("%d decisions of the process, %d in all", len(ofProcess), len(reported))
	}
}
