package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/sandboxhost"
)

// startWebServer starts a web server on a loopback address and returns its host and port.
func startWebServer(t *testing.T) (host string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// curls prints the status of one request to each host, or the code with which curl fails.
func curls(options string, hosts ...string) string {
	var b strings.Builder
	for _, host := range hosts {
		fmt.Fprintf(&b, "curl -s %s -o /dev/null -w '%%{http_code}\n' http://%s/ || echo curl $?\n", options, host)
	}
	return b.String()
}

// A command reaches the allowed hosts, and each refused host is reported once.
func TestRunAllowsHosts(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	allowed, other := startWebServer(t), startWebServer(t)
	refused := fmt.Sprintf("tether: refused %s: it is a private or local address, of 127.0.0.0/8 (loopback), and no --allow-host is for it alone; allow it with --allow-host %[1]s\n", other)
	for name, url := range servers(t) {
		t.Run(name, func(t *testing.T) {
			b := newTestEnv(t)
			run := func(args ...string) end {
				t.Helper()
				return b.tether(nil, append(append([]string{"run"}, url...), args...)...)
			}
			got := run("--allow-host", allowed, "--", "sh", "-c", curls("", allowed, other, other)+curls("--noproxy '*'", allowed)+"touch "+b.work+"/here && exit 3")
			if want := (end{3, "200\n403\n403\n000\ncurl 7\n", refused}); got != want {
				t.Errorf("%+v\nwant %+v", got, want)
			}
			got = run("--quiet", "--allow-host", allowed, "--", "sh", "-c", curls("", other))
			if want := (end{0, "403\n", ""}); got != want {
				t.Errorf("quiet: %+v", got)
			}
			got = run("--sandbox", "read-only", "--allow-host", allowed, "--", "sh", "-c", curls("", allowed)+"touch /var/tmp/tether-no 2>/dev/null || echo no")
			if want := (end{0, "200\nno\n", ""}); got != want {
				t.Errorf("with a sandbox: %+v", got)
			}
			got = run("--allow-host", "*.example", "--deny-host", "b.example:80", "--", "sh", "-c", curls("", "b.example", "c.test"))
			want := "tether: refused b.example:80: --deny-host b.example:80\n" +
				"tether: refused c.test:80: no --allow-host matches; allow it with --allow-host c.test:80\n"
			if got.code != 0 || got.stdout != "403\n403\n" || got.stderr != want {
				t.Errorf("%+v\nwant %s", got, want)
			}
			b.isEmpty()
		})
	}
}

func TestSandboxRunAllowsHosts(t *testing.T) {
	t.Parallel()
	r := newSandboxEnv(t)
	allowed, other := startWebServer(t), startWebServer(t)
	got := r.run("--allow-host", allowed, "--", "sh", "-c", curls("", allowed, other, other)+curls("--noproxy '*'", allowed)+"exit 3")
	refused := fmt.Sprintf("tether: refused %s: it is a private or local address, of 127.0.0.0/8 (loopback), and no --allow-host is for it alone; allow it with --allow-host %[1]s\n", other)
	if want := (end{3, "200\n403\n403\n000\ncurl 7\n", refused}); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	got = r.run("--profile", "full", "--allow-host", allowed, "--", "sh", "-c", curls("", allowed)+"touch ../outside/file && echo written")
	if want := (end{0, "200\nwritten\n", ""}); got != want {
		t.Errorf("without a sandbox for files: %+v", got)
	}
}

func TestSandboxExplainHostsAsJSON(t *testing.T) {
	t.Parallel()
	r := newSandboxEnv(t)
	explain := func(args ...string) (e sandboxhost.Explanation) {
		t.Helper()
		got := r.tether("", append([]string{"sandbox", "explain", "--json"}, args...)...)
		if err := json.Unmarshal([]byte(got.stdout), &e); err != nil || got.code != 0 {
			t.Fatalf("%v: %+v", err, got)
		}
		return e
	}
	hosts := []string{"WWW.Example.com.", "example.com:80", "a.internal:443", "a.internal:80", "secret.internal:443", "127.0.0.1:8080", "127.0.0.1:81", "localhost", "[::1]:80", "10.0.0.1", "other.test"}
	var args []string
	for _, host := range hosts {
		args = append(args, "--host", host)
	}
	e := explain(append(args, "--allow-host", "**.example.com", "--allow-host", "*.internal:443", "--allow-host", "127.0.0.1:8080", "--deny-host", "secret.internal")...)
	want := []sandboxhost.HostDecision{
		{Host: "www.example.com", Port: 443, Reachable: true, Rule: "**.example.com"},
		{Host: "example.com", Port: 80, Reachable: true, Rule: "**.example.com"},
		{Host: "a.internal", Port: 443, Reachable: true, Rule: "*.internal:443"},
		{Host: "a.internal", Port: 80, Reason: "not_allowed"},
		{Host: "secret.internal", Port: 443, Reason: "denied", Rule: "secret.internal"},
		{Host: "127.0.0.1", Port: 8080, Reachable: true, Rule: "127.0.0.1:8080"},
		{Host: "127.0.0.1", Port: 81, Reason: "not_allowed_local", Rule: "127.0.0.0/8 (loopback)"},
		{Host: "localhost", Port: 443, Reason: "not_allowed_local", Rule: "127.0.0.0/8 (loopback)"},
		{Host: "::1", Port: 80, Reason: "not_allowed_local", Rule: "::1/128 (loopback)"},
		{Host: "10.0.0.1", Port: 443, Reason: "not_allowed_local", Rule: "10.0.0.0/8 (private)"},
		{Host: "other.test", Port: 443, Reason: "not_allowed"},
	}
	if len(e.Hosts) != len(want) || e.Network != "managed" {
		t.Fatalf("%+v", e)
	}
	for i, d := range e.Hosts {
		if d.Why == "" {
			t.Errorf("no words: %+v", d)
		}
		if d.Why = ""; d != want[i] {
			t.Errorf("%s: %+v\nwant %+v", hosts[i], d, want[i])
		}
	}

	for _, try := range []struct {
		args      []string
		network   string
		reachable bool
	}{
		{nil, "restricted", false},
		{[]string{"--network"}, "enabled", true},
		{[]string{"--profile", "full"}, "enabled", true},
	} {
		e := explain(append(try.args, "--host", "example.com")...)
		if e.Network != try.network || len(e.Hosts) != 1 || e.Hosts[0].Reachable != try.reachable || e.Hosts[0].Rule != "" {
			t.Errorf("%q: %q %+v", try.args, e.Network, e.Hosts)
		}
	}
}

// A host that is denied in one spelling is denied in all of them.
func TestDenyHostBeyondASCII(t *testing.T) {
	r := newSandboxEnv(t)
	for _, deny := range []string{"bücher.example", "bu\u0308cher.example", "ＢÜcher.example", "*.bücher.example"} {
		host := "xn--bcher-kva.example"
		if strings.HasPrefix(deny, "*") {
			host = "a." + host
		}
		got := r.tether("", "sandbox", "explain", "--allow-host", "*", "--deny-host", deny, "--host", host)
		if want := host + ":443\n    refused: --deny-host " + deny + "\n"; got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("--deny-host %s: %d %s%s\nwant %s", deny, got.code, got.stdout, got.stderr, want)
		}
	}
	got := r.tether("", "sandbox", "explain", "--allow-host", "*", "--deny-host", "bü*.example", "--host", "a.example")
	if want := "domain pattern is no host name by the rules for international names: bü*.example: * and ? cannot stand beside"; got.code == 0 || !strings.Contains(got.stderr, want) {
		t.Errorf("--deny-host bü*.example: %d %s%s\nwant %s", got.code, got.stdout, got.stderr, want)
	}
}

func TestSandboxExplainHostsAsText(t *testing.T) {
	t.Parallel()
	r := newSandboxEnv(t)
	got := r.tether("", "sandbox", "explain", "--allow-host", "*.example.com", "--host", "a.example.com", "--host", "127.0.0.1:80", "--host", "other.test")
	for _, want := range []string{
		"network   what --allow-host names, through a proxy\n",
		"\nhosts\n  a.example.com:443\n    reachable: --allow-host *.example.com, unless it leads to a private or local address when the command asks for it\n" +
			"  127.0.0.1:80\n    refused: it is a private or local address, of 127.0.0.0/8 (loopback), which only an --allow-host for it alone opens, not one with *\n" +
			"  other.test:443\n    refused: no --allow-host matches\n\nplan\n",
	} {
		if got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("%d %s%s\nwant %s", got.code, got.stdout, got.stderr, want)
		}
	}
}
