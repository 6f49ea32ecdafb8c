package conformance

import (
	"fmt"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// networkProxy returns the parameters of a start with an own proxy, rules about hosts and more settings.
func networkProxy(domains map[string]string, more ...map[string]any) map[string]any {
	proxy := map[string]any{
		"enabled": true, "enableSocks5": true, "enableSocks5Udp": true, "allowUpstreamProxy": true, "dangerouslyAllowAllUnixSockets": false,
		"mode": "full", "domains": domains, "unixSockets": nil, "allowLocalBinding": false,
	}
	want := map[string]any{"proxy": proxy, "environmentId": "r1", "executionId": "e1", "auditMetadata": map[string]any{"appVersion": "0.166.0"}}
	for _, m := range more {
		for name, value := range m {
			if _, ok := proxy[name]; ok {
				proxy[name] = value
			} else {
				want[name] = value
			}
		}
	}
	return map[string]any{"networkProxy": want}
}

// loopback are rules that allow the host's own loopback by its address, and nothing else.
var loopback = map[string]string{"127.0.0.1": "allow"}

var asked = map[string]any{"policyDecisionTimeoutMs": 60_000}

// without returns the settings without one member.
func without(params map[string]any, name string) map[string]any {
	delete(params["networkProxy"].(map[string]any)["proxy"].(map[string]any), name)
	return params
}

func both(a, b map[string]any) map[string]any {
	all := map[string]any{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

func openSite(fx *fixture) { fx.openSite() }

// threeWays is a script that requests a page by HTTP, through a tunnel and by SOCKS5.
const threeWays = `curl -sS http://$SITE/plain; curl -sSp http://$SITE/tunnel
	curl -sS --socks5-hostname ${ALL_PROXY#socks5h://} http://$SITE/socks; `

// refusedWays is the same with a host that is not allowed.
const refusedWays = `curl -sS -i http://blocked.example/; curl -sSp -D - http://blocked.example:443/; echo tunnel $?
	curl -sS --socks5-hostname ${ALL_PROXY#socks5h://} http://blocked.example/; echo socks $?; `

var wereRefused = []string{
	`^HTTP/1.1 403 Forbidden\r\n(?:\S+: .*\r\n)*\r\n` + regexp.QuoteMeta(`{"status":"blocked","host":"blocked.example","reason":"not_allowed","decision":"deny",`+
		`"source":"baseline_policy","protocol":"http","port":80,"message":"Domain not in allowlist."}`) + `\n?`,
	`(?i)^content-type: application/json\r$`, `(?i)^x-proxy-error: blocked-by-allowlist\r$`, `(?i)^content-type: text/plain\b`,
	`^tunnel 56$`, `^socks 97$`,
}

// siteWasAsked checks that the site got exactly these requests.
func siteWasAsked(paths ...string) func(*testing.T, *fixture, outcome) {
	return func(t *testing.T, fx *fixture, o outcome) {
		t.Helper()
		want := []string{}
		for _, path := range paths {
			want = append(want, "GET "+fx.site.addr()+" "+path)
		}
		if got := fx.site.asked(); !slices.Equal(got, want) {
			t.Errorf("the site was asked for %q, want %q", got, want)
		}
	}
}

func proxyRows() []row {
	wn := workspaceOnly()
	everything := slices.Concat([]string{`(?:` + siteText + `\n){3}`}, wereRefused)
	invalid := func(id, text string, params map[string]any) row {
		return row{id: id, policy: wn, script: `true`, params: params, fails: &failure{invalidParams, text}}
	}
	limited := networkProxy(loopback, map[string]any{"mode": "limited"})
	return []row{
		{id: "M20", policy: unconfined(), params: networkProxy(loopback), setup: openSite, script: threeWays + refusedWays,
			out: everything, check: siteWasAsked("/plain", "/tunnel", "/socks")},
		{id: "M21", policy: wn, params: enforce(networkProxy(loopback)), setup: openSite, script: threeWays + refusedWays + `$PROBE connect-tcp $SITE`,
			exit: 1, denied: no, out: append([]string{`^connect-tcp: ECONNREFUSED$`}, everything...), check: siteWasAsked("/plain", "/tunnel", "/socks")},
		{id: "M21-disabled", policy: disabled(), params: enforce(networkProxy(loopback)), setup: openSite, script: threeWays + refusedWays + `$PROBE connect-tcp $SITE`,
			exit: 1, denied: no, out: append([]string{`^connect-tcp: ECONNREFUSED$`}, everything...), check: siteWasAsked("/plain", "/tunnel", "/socks")},
		{id: "M21-tty", policy: wn, params: enforce(networkProxy(loopback), tty), setup: openSite, script: `curl -sS http://$SITE/plain`,
			out: []string{siteText}, check: siteWasAsked("/plain")},
		{id: "M21-unix", policy: wn, params: enforce(networkProxy(loopback, map[string]any{"dangerouslyAllowAllUnixSockets": true})),
			setup: func(fx *fixture) { fx.socket() }, probe: "connect-unix $SOCK"},
		{id: "M21-foreign", policy: wn, params: enforce(networkProxy(loopback)), setup: func(fx *fixture) { prepare(fx); fx.set("CODEX_NETWORK_PROXY_ATTRIBUTION", "t0k3n") },
			script: `curl -sS http://$SITE/plain; curl -sS -o /dev/null -w '%{http_code}\n' http://blocked.example/; env; true`,
			out:    []string{siteText, "^403$"}, not: []string{"t0k3n", "_(proxy|PROXY)=.*$PREPARED"}, check: siteWasAsked("/plain")},
		invalid("M22", "^invalid network proxy config: executor-local network proxy launch requires an enabled proxy$", networkProxy(nil, map[string]any{"enabled": false})),
		invalid("M22-timeout", "^network policy decision callback timeout must be nonzero$", networkProxy(nil, map[string]any{"policyDecisionTimeoutMs": 0})),
		invalid("M22-id", "^callback-enabled process ID must be non-empty and at most 256 bytes$", both(networkProxy(nil, asked), map[string]any{"processId": strings.Repeat("x", 257)})),
		invalid("M22-noid", "^callback-enabled process ID must be non-empty and at most 256 bytes$", both(networkProxy(nil, asked), map[string]any{"processId": ""})),
		invalid("M23", "missing field `enableSocks5`", without(networkProxy(nil), "enableSocks5")),
		invalid("M23-mode", "unknown variant `open`, expected `limited` or `full`", networkProxy(nil, map[string]any{"mode": "open"})),
		invalid("M23-access", "unknown variant `maybe`", networkProxy(map[string]string{"x.example": "maybe"})),
		{id: "M23-less", policy: wn, params: enforce(without(without(networkProxy(nil), "domains"), "unixSockets")), script: `curl -s -o /dev/null -w '%{http_code}' http://x.example/`, out: []string{"403"}},
		{id: "M24", policy: unconfined(), params: limited, setup: openSite, script: `curl -sS -i -d x http://$SITE/post; curl -sS http://$SITE/get
			curl -sSI -o /dev/null http://$SITE/head; curl -sS -X OPTIONS http://$SITE/options; curl -sSp http://$SITE/tunnel; echo tunnel $?`,
			out: []string{`(?i)^x-proxy-error: blocked-by-method-policy\r$`, `"reason":"method_not_allowed","decision":"deny","source":"mode_guard","protocol":"http"`,
				siteText, `^tunnel 56$`},
			check: func(t *testing.T, fx *fixture, _ outcome) {
				if got := fmt.Sprint(fx.site.asked()); got != fmt.Sprintf("[GET %[1]s /get HEAD %[1]s /head OPTIONS %[1]s /options]", fx.site.addr()) {
					t.Errorf("the site was asked for %s", got)
				}
			}},
		{id: "M24-managed", policy: wn, params: enforce(limited), setup: openSite, script: `curl -sS -X DELETE http://$SITE/post; curl -sS http://$SITE/get`,
			out: []string{`"reason":"method_not_allowed"`, siteText}, check: siteWasAsked("/get")},
		{id: "M25", policy: wn, params: networkProxy(loopback), setup: openSite, script: `curl -sS http://$SITE/; echo inner $?; env`,
			out: []string{"^inner 7$", "^CODEX_NETWORK_PROXY_ACTIVE=1$"}, check: siteNotReached},
		{id: "M26", policy: wn, params: enforce(networkProxy(map[string]string{"127.0.0.1": "deny"}, asked)), setup: openSite, decide: allowAll, script: `curl -sS -i http://$SITE/`,
			out: []string{`(?i)^x-proxy-error: blocked-by-denylist\r$`, `"reason":"denied"`}, check: siteNotReached},
		{id: "M26-none", policy: wn, params: enforce(networkProxy(map[string]string{"127.0.0.1": "none"})), setup: openSite, script: `curl -sS http://$SITE/`,
			out: []string{`"reason":"not_allowed(_local)?"`}, check: siteNotReached},
		{id: "M26-local", policy: wn, params: enforce(networkProxy(nil, asked)), setup: openSite, decide: allowAll, script: `curl -sS -i http://$SITE/`,
			out: []string{`(?i)^x-proxy-error: blocked-by-allowlist\r$`, `"reason":"not_allowed_local"`}, check: siteNotReached},
		{id: "M27", policy: wn, params: enforce(networkProxy(loopback, map[string]any{"allowLocalBinding": true})), setup: openSite,
			script: `env; curl -sS --noproxy '' http://$SITE/; $PROBE listen-tcp 127.0.0.1:0; curl -sS http://$SITE/`, exit: 7,
			out: []string{"^CODEX_NETWORK_ALLOW_LOCAL_BINDING=1$", siteText, "^ok$"}, check: siteWasAsked("/")}, // a network of its own has a loopback of its own
	}
}

// allowAll allows everything.
func allowAll(question) any { return verdictOf("allow") }

// decided checks the questions and the decision about one attempt.
func decided(asked bool, expected decision) func(*testing.T, *fixture, outcome) {
	return func(t *testing.T, fx *fixture, o outcome) {
		t.Helper()
		want := expected
		if len(o.decisions) != 1 {
			t.Fatalf("decisions: %v", o.decisions)
		}
		got := o.decisions[0]
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(got.Timestamp) {
			t.Errorf("timestamp %q", got.Timestamp)
		}
		if !regexp.MustCompile(`^127\.0\.0\.1:\d+$`).MatchString(got.Client) {
			t.Errorf("client %q", got.Client)
		}
		want.ProcessID, want.Scope, want.Timestamp, want.Client = fx.mark, "domain", got.Timestamp, got.Client
		if want.Host == "" {
			want.Host, want.Port = "127.0.0.1", fx.site.listener.Addr().(*net.TCPAddr).Port
		}
		if got != want {
			t.Errorf("decision %+v, want %+v", got, want)
		}
		questions := []question{}
		if asked {
			questions = append(questions, question{want.Protocol, want.Host, want.Port})
		}
		if !slices.Equal(o.questions, questions) {
			t.Errorf("questions %+v, want %+v", o.questions, questions)
		}
	}
}

// M28: the client is asked about a host that the rules do not decide.
func TestClientDecidesUnknownHost(t *testing.T) {
	const plain, tunnel, socks = `curl -sS http://ask.example/x`, `curl -sSp http://ask.example:8443/x; echo tunnel $?`,
		`curl -sS --socks5-hostname ${ALL_PROXY#socks5h://} http://ask.example:8080/x; echo socks $?`
	denied := func(protocol string, port int, method, reason string) decision {
		return decision{Decision: "deny", Source: "decider", Reason: reason, Protocol: protocol, Host: "ask.example", Port: port, Method: method}
	}
	nope := func(question) any { return verdictOf("deny", "nope-by-controller") }
	local := map[string]any{"allowLocalBinding": true}
	rows := []row{
		{id: "http", script: plain, decide: nope, out: []string{`"reason":"nope-by-controller","decision":"deny","source":"decider","protocol":"http","port":80`},
			check: decided(true, denied("http", 80, "GET", "nope-by-controller"))},
		{id: "tunnel", script: tunnel, decide: nope, out: []string{`^tunnel 56$`}, check: decided(true, denied("https_connect", 8443, "CONNECT", "nope-by-controller"))},
		{id: "socks", script: socks, decide: nope, out: []string{`^socks 97$`}, check: decided(true, denied("socks5_tcp", 8080, "", "nope-by-controller"))},
		{id: "allow", script: `curl -sS --noproxy '' http://$SITE/x`, decide: allowAll, setup: openSite, params: enforce(networkProxy(nil, asked, local)), out: []string{siteText},
			check: decided(true, decision{Decision: "allow", Source: "decider", Reason: "not_allowed", Protocol: "http", Method: "GET", PolicyOverride: true})},
		{id: "settled", script: `curl -sS http://$SITE/x`, decide: allowAll, setup: openSite, params: enforce(networkProxy(loopback, asked)), out: []string{siteText},
			check: decided(false, decision{Decision: "allow", Source: "baseline_policy", Reason: "allow", Protocol: "http", Method: "GET"})},
		{id: "error", script: plain, out: []string{`"reason":"not_allowed"`}, check: decided(true, denied("http", 80, "GET", "not_allowed"))},
		{id: "no-reason", script: plain, decide: func(question) any { return verdictOf("deny") }, out: []string{`"reason":"not_allowed"`}},
		{id: "long", script: plain, decide: func(question) any { return verdictOf("deny", strings.Repeat("r", 1025)) }, out: []string{`"reason":"not_allowed"`},
			check: decided(true, denied("http", 80, "GET", "not_allowed"))},
		{id: "control", script: plain, decide: func(question) any { return verdictOf("deny", "a\nb") }, out: []string{`"reason":"not_allowed"`},
			check: decided(true, denied("http", 80, "GET", "not_allowed"))},
		{id: "garbage", script: plain, decide: func(question) any { return map[string]any{"decision": map[string]any{"type": "sure"}} }, out: []string{`"reason":"not_allowed"`}},
		{id: "wrong", script: plain, decide: func(question) any { return "allow" }, out: []string{`"reason":"not_allowed"`}},
		{id: "silence", script: plain, decide: func(question) any { return nil }, params: enforce(networkProxy(nil, map[string]any{"policyDecisionTimeoutMs": 1})),
			out: []string{`"reason":"not_allowed"`}, check: decided(true, denied("http", 80, "GET", "not_allowed"))},
		{id: "ask", script: plain, decide: func(question) any { return verdictOf("ask", "later") }, out: []string{`"status":"blocked"`, `"reason":"later"`}},
		{id: "free", policy: unconfined(), params: networkProxy(nil, asked), script: plain, decide: nope, out: []string{`"reason":"nope-by-controller"`},
			check: decided(true, denied("http", 80, "GET", "nope-by-controller"))},
	}
	for _, r := range rows {
		if r.params == nil {
			r.params = enforce(networkProxy(nil, asked))
		}
		if r.id != "free" {
			r.policy = workspaceOnly()
		}
		t.Run(r.id, func(t *testing.T) { eachAccount(t, r.run) })
	}
}

// The end of a process does not wait for the client's answer.
// Scenario M28.
func TestPendingDecisionEndsWithProcess(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.handOver()
		s := a.acquire(t)
		s.decideBy(t, func(question) any { return nil })
		p := s.mustStart(t, fx, row{policy: workspaceOnly(), params: enforce(networkProxy(nil, map[string]any{"policyDecisionTimeoutMs": 3600_000})), script: `curl -sS http://ask.example/`})
		p.until(t, "question", func(o outcome) bool { return len(o.questions) > 0 })
		p.terminate(t)
		p.finish(t)
		row{}.checkHost(t, fx, s)
	})
}

// The environment of a process with a proxy, complete.
func TestProxyEnvironment(t *testing.T) {
	const httpNames = `HTTP_PROXY HTTPS_PROXY http_proxy https_proxy YARN_HTTP_PROXY YARN_HTTPS_PROXY npm_config_https_proxy
		npm_config_proxy NPM_CONFIG_HTTPS_PROXY NPM_CONFIG_PROXY BUNDLE_HTTP_PROXY BUNDLE_HTTPS_PROXY PIP_PROXY
		DOCKER_HTTP_PROXY DOCKER_HTTPS_PROXY WS_PROXY WSS_PROXY ws_proxy wss_proxy`
	const socksNames, noNames = `ALL_PROXY all_proxy FTP_PROXY ftp_proxy`, `NO_PROXY no_proxy npm_config_noproxy NPM_CONFIG_NOPROXY YARN_NO_PROXY BUNDLE_NO_PROXY`
	foreign := map[string]string{"HTTP_PROXY": "http://10.1.2.3:1", "NO_PROXY": "*", "all_proxy": "socks5://10.1.2.3:2", "CODEX_NETWORK_PROXY_ATTRIBUTION": "t0k3n",
		"CODEX_NETWORK_PROXY_ACTIVE": "0", "CURL_CA_BUNDLE": "/etc/some.pem", "SSL_CERT_FILE": "/etc/other.pem"}
	check := func(t *testing.T, a *account, p policy, params map[string]any, socks, local bool) {
		fx := newFixture(t, a)
		fx.handOver()
		env := both(toAny(fx.env()), toAny(foreign))
		params = both(both(params, networkProxy(nil, map[string]any{"enableSocks5": socks, "allowLocalBinding": local})), map[string]any{"env": env})
		o := a.acquire(t).mustStart(t, fx, row{policy: p, params: params, argv: []string{"/usr/bin/env", "-0"}}).finish(t)
		got := map[string]string{}
		for entry := range strings.SplitSeq(strings.TrimSuffix(o.stdout, "\x00"), "\x00") {
			name, value, _ := strings.Cut(entry, "=")
			if _, twice := got[name]; twice {
				t.Errorf("%s is there twice", name)
			}
			got[name] = value
		}
		httpURL, socksURL := got["HTTP_PROXY"], got["ALL_PROXY"]
		if !regexp.MustCompile(`^http://127\.0\.0\.1:\d+$`).MatchString(httpURL) {
			t.Errorf("HTTP_PROXY=%s", httpURL)
		}
		if want := regexp.MustCompile(`^socks5h://127\.0\.0\.1:\d+$`); socks != want.MatchString(socksURL) || !socks && socksURL != httpURL {
			t.Errorf("ALL_PROXY=%s", socksURL)
		}
		want := fx.env()
		maps.Copy(want, map[string]string{"CURL_CA_BUNDLE": "/etc/some.pem", "SSL_CERT_FILE": "/etc/other.pem", "CODEX_NETWORK_PROXY_ACTIVE": "1",
			"CODEX_NETWORK_ALLOW_LOCAL_BINDING": "0", "ELECTRON_GET_USE_PROXY": "true", "NODE_USE_ENV_PROXY": "1"})
		direct := ""
		if local {
			want["CODEX_NETWORK_ALLOW_LOCAL_BINDING"], direct = "1", "localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16"
		}
		for names, value := range map[string]string{httpNames: httpURL, socksNames: socksURL, noNames: direct} {
			for name := range strings.FieldsSeq(names) {
				want[name] = value
			}
		}
		if p.kind != "" {
			want["PWD"] = fx.ws // every sandbox sets it
		}
		for name := range both(toAny(got), toAny(want)) {
			if value, ok := got[name]; !ok || value != want[name] {
				t.Errorf("%s is %q (%v), want %q", name, value, ok, want[name])
			}
		}
	}
	eachAccount(t, func(t *testing.T, a *account) {
		for _, socks := range []bool{true, false} {
			for _, local := range []bool{true, false} {
				check(t, a, unconfined(), nil, socks, local)
				check(t, a, workspaceOnly(), enforce(), socks, local)
			}
		}
	})
}

func toAny(m map[string]string) map[string]any {
	all := map[string]any{}
	for name, value := range m {
		all[name] = value
	}
	return all
}

// descriptors returns what the descriptors of the server are.
func (s *instance) descriptors(t *testing.T) (links []string) {
	t.Helper()
	for _, pid := range s.pids() {
		dir := fmt.Sprintf("/proc/%d/fd/", pid)
		names, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			link, _ := os.Readlink(dir + name.Name())
			links = append(links, link)
		}
	}
	return links
}

// A proxy on the host's loopback ends with its process.
func TestProxyDies(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.handOver()
		s := a.own(t, a.argv(), nil)
		p := s.mustStart(t, fx, row{policy: unconfined(), params: both(stdinPipe, networkProxy(loopback)), script: `echo $HTTP_PROXY $ALL_PROXY .; read go`})
		p.says(t, " .\n")
		ports := s.listens(t)
		o := p.until(t, "ports", func(outcome) bool { return true })
		if len(ports) != 2 || !strings.Contains(o.stdout, fmt.Sprintf(":%d", ports[0])) || !strings.Contains(o.stdout, fmt.Sprintf(":%d", ports[1])) {
			t.Fatalf("the server listens on %v, the process was told %q", ports, o.stdout)
		}
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0])) // it stays silent
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		p.write(t, "go\n")
		p.finish(t)
		tethertest.Eventually(t, func() error {
			for _, port := range ports {
				if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
					conn.Close()
					return fmt.Errorf("port %d is still served", port)
				}
			}
			return nil
		})
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("a connection to it has said %d bytes", n)
		}
		if ports := s.listens(t); len(ports) != 0 {
			t.Errorf("the server listens on %v", ports)
		}
	})
}

// A server that has to use a proxy itself forwards only allowed requests to it.
func TestProxyUpstream(t *testing.T) {
	eachIsolatedAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.openSite()
		fx.handOver()
		up := newClientProxy(t)
		s := a.own(t, append([]string{"/usr/bin/env", "HTTP_PROXY=http://" + up.addr(), "http_proxy=http://" + up.addr()}, a.argv()...), nil)
		const script = `curl -sS http://good.example/x; curl -sS http://bad.example/x; curl -sS http://127.0.0.1:1/`
		rules := map[string]string{"good.example": "allow"}
		p := s.mustStart(t, fx, row{policy: workspaceOnly(), params: enforce(networkProxy(rules)), script: script})
		row{out: []string{"^" + proxyText + " GET http://good.example(:80)?/x$", `"host":"bad.example","reason":"not_allowed"`, `"reason":"not_allowed_local"`}}.checkOutcome(t, fx, p.finish(t))
		if began := up.began(); len(began) != 1 {
			t.Errorf("upstream connections began with %q", began)
		}
		direct := networkProxy(loopback, map[string]any{"allowUpstreamProxy": false})
		p = s.mustStart(t, fx, row{policy: workspaceOnly(), params: both(enforce(direct), map[string]any{"processId": "direct"}), script: `curl -sS http://$SITE/y`})
		row{out: []string{siteText}, check: siteWasAsked("/y")}.checkOutcome(t, fx, p.finish(t))
	})
}
