package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// row returns the beginning of the row of a list that begins with these cells.
func row(cells ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^` + strings.Join(cells, ` +`) + `\b`)
}

// detach starts a command in the background, and returns its name.
func (f *fleetEnv) detach(t *testing.T, url, name string, argv ...string) {
	t.Helper()
	got := f.tether(nil, slices.Concat([]string{"run", "--url", url, "--detach", "--name", name, "--"}, argv)...)
	if got.code != 0 || got.stdout != name+"\n" {
		t.Fatalf("%s: %+v", name, got)
	}
}

// ps --all-hosts shows the processes of all hosts, also of those that are draining. It names hosts that do not answer, and a command that
// names a process finds it on any host.
func TestAllHosts(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	f.startHost(t, "a")
	f.startHost(t, "c")
	b := f.startPart(t, "serve", "--join", f.hub, "--creds", f.creds("host", "b"), "--no-keeper") // one process, which can be killed
	b.line(t)
	_, url := f.startGateway(t)
	f.await(t, "a reachable", "b reachable", "c reachable")
	f.detach(t, url+"/?host=a", "one", "sh", "-c", "echo of one; sleep 1000")
	f.detach(t, url+"/?host=b", "two", "sh", "-c", "echo of two; sleep 1000")
	f.detach(t, url+"/?host=a", "twin", "sleep", "1000")
	f.detach(t, url+"/?host=b", "twin", "sleep", "1000")
	if got := f.tether(nil, "hosts", "drain", "b"); got != (end{}) {
		t.Fatalf("%+v", got)
	}
	f.await(t, "a reachable", "b draining", "c reachable")

	got := f.tether(nil, "ps", "--url", url, "--all-hosts")
	if got.code != 0 || got.stderr != "" || !row("HOST", "NAME", "SESSION", "STATE").MatchString(got.stdout) ||
		!row("a", "one", "[0-9a-f]{8}", "running").MatchString(got.stdout) || !row("b", "two", "[0-9a-f]{8}", "running").MatchString(got.stdout) {
		t.Errorf("%+v", got)
	}
	if got := f.tether(nil, "sessions", "--url", url, "--all-hosts"); got.code != 0 || !row("a", "[0-9a-f]{8}", "one").MatchString(got.stdout) ||
		!row("b", "[0-9a-f]{8}", "two").MatchString(got.stdout) {
		t.Errorf("%+v", got)
	}
	if got := f.tether(nil, "ps", "--url", url+"/?host=b"); got.code != 0 || !row("two").MatchString(got.stdout) || row("one").MatchString(got.stdout) {
		t.Errorf("of one host, which is draining: %+v", got)
	}

	// A process is found on the host that has it.
	for name, want := range map[string]string{"one": "of one\n", "two": "of two\n"} {
		if got := f.tether(nil, "logs", "--url", url, name); got != (end{stdout: want}) {
			t.Errorf("logs of %s: %+v", name, got)
		}
	}
	if got := f.tether(nil, "run", "--url", url, "--detach", "--name", "three", "true"); got.code != 0 || !strings.Contains(got.stderr, "it runs on the host ") {
		t.Errorf("%+v", got)
	}
	if got := f.tether(nil, "wait", "--url", url, "three"); got != (end{}) {
		t.Errorf("%+v", got)
	}
	if got := f.tether(nil, "kill", "--url", url, "twin"); got.code != exitError || !strings.Contains(got.stderr, `several running processes are called "twin"`) {
		t.Errorf("of two hosts: %+v", got)
	}
	if got := f.tether(nil, "kill", "--url", url, "two", "one"); got != (end{}) {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"one", "two"} {
		if got := f.tether(nil, "wait", "--url", url, name); got.code != 128+15 {
			t.Errorf("%s after kill: %+v", name, got)
		}
	}
	if got := f.tether(nil, "sessions", "--url", url, "--end", "one", "--end", "two"); got != (end{}) {
		t.Errorf("%+v", got)
	}
	if got := f.tether(nil, "logs", "--url", url, "two"); got.code != exitError || !strings.Contains(got.stderr, `no process is called "two"`) {
		t.Errorf("after the end of its session: %+v", got)
	}

	// A host that was killed is named, and the others are listed.
	b.Process.Kill()
	b.Wait()
	var list []struct{ Host, ProcessID string }
	got = f.tether(nil, "ps", "--url", url, "--all-hosts", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || got.code != exitError || len(list) < 1 || !slices.ContainsFunc(list, func(p struct{ Host, ProcessID string }) bool {
		return p.Host == "a" && p.ProcessID == "twin"
	}) || !strings.HasPrefix(got.stderr, "tether: host b does not answer: ") {
		t.Errorf("%v: %+v", err, got)
	}
	if got := f.tether(nil, "logs", "--url", url, "gone"); !strings.HasSuffix(got.stderr, "(no answer from the hosts: b)\n") {
		t.Errorf("%+v", got)
	}
	// All hosts are draining, or away.
	for _, host := range []string{"a", "c"} {
		if got := f.tether(nil, "hosts", "drain", host); got != (end{}) {
			t.Fatalf("%+v", got)
		}
	}
	tethertest.Eventually(t, func() error {
		if got := f.tether(nil, "run", "--url", url, "true"); got.code != exitRefused ||
			!strings.HasSuffix(got.stderr, ": no host of the fleet that takes new sessions is reachable now\n") {
			return fmt.Errorf("a new session on a host that is draining: %+v", got)
		}
		return nil
	})
	if got := f.tether(nil, "kill", "--url", url, "twin"); got != (end{}) {
		t.Errorf("%+v", got)
	}
}

// --all-hosts needs a gateway, and a client that the gateway accepts.
func TestAllHostsRefusals(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	f.startHost(t, "a")
	token := filepath.Join(f.work, "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, url := f.startGateway(t, "--ws-auth", "capability-token", "--ws-token-file", token)
	_, socket := f.startGateway(t, "--listen", "unix://"+filepath.Join(f.work, "gate.sock"))
	f.await(t, "a reachable")
	plain := f.startPart(t, "serve", "--listen", "ws://127.0.0.1:0", "--no-keeper").line(t)
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--url", url, "--token-file", token}, 0, ""},
		{[]string{"--url", socket}, 0, ""},
		{[]string{"--url", url}, exitError, "tether: cannot connect to " + url + ": it requires a token; name the file that holds it with --token-file, or set TETHER_TOKEN\n"},
		{[]string{"--url", url + "/?host=a", "--token-file", token}, exitUsage, "--all-hosts: leave out what follows the ?"},
		{[]string{"--url", plain}, exitError, "tether: --all-hosts: " + plain + ": it is not the gateway of a fleet; leave the flag out to ask this server alone\n"},
		{nil, exitUsage, "--all-hosts needs the URL of a gateway"},
		{[]string{"--url", "exec:cat"}, exitUsage, "--all-hosts needs the URL of a gateway"},
		{[]string{"--url", "ws://127.0.0.1:1"}, exitError, "cannot connect to ws://127.0.0.1:1: no server listens there"},
	} {
		for _, command := range []string{"ps", "sessions"} {
			got := f.tether(nil, append([]string{command, "--all-hosts"}, row.args...)...)
			if got.code != row.code || !strings.Contains(got.stderr, row.want) {
				t.Errorf("%s %v: %+v, want %q", command, row.args, got, row.want)
			}
		}
	}
}
