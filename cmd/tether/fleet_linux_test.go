package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A fleetEnv is a hub with real programs around it.
type fleetEnv struct {
	*testEnv
	hub string // its URL
}

// startFleet starts a hub, and makes credentials for an operator.
func startFleet(t *testing.T) *fleetEnv {
	t.Helper()
	f := &fleetEnv{testEnv: newTestEnv(t)}
	f.env = append(f.env, "PATH="+filepath.Dir(fleetBuilt(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	f.hub = f.startPart(t, "hub", "--listen", "nats://127.0.0.1:0").line(t)
	f.env = append(f.env, "TETHER_NATS="+f.hub, "TETHER_CREDS="+f.creds("operator", "me"))
	return f
}

// startPart starts a program that runs until the end of the test, such as a part of the fleet.
func (b *testEnv) startPart(t *testing.T, args ...string) *program {
	t.Helper()
	p := startProgram(t, b.env, b.command(args...))
	t.Cleanup(func() {
		if p.Process.Kill(); t.Failed() {
			p.Wait()
			t.Logf("%s: %s", args[0], tail(p.stderr.Bytes()))
		}
	})
	return p
}

// creds makes a file with credentials, and returns its name.
func (f *fleetEnv) creds(role, name string) string {
	f.t.Helper()
	file := filepath.Join(f.work, name+".creds")
	if got := f.tether(nil, "hub", "add-"+role, name, "--out", file, "--force"); got != (end{}) {
		f.t.Fatalf("%+v", got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		f.t.Fatal(info.Mode(), err)
	}
	return file
}

// startHost starts an executor that joins the fleet.
func (f *fleetEnv) startHost(t *testing.T, name string, flags ...string) *keptServer {
	t.Helper()
	args := append([]string{"serve", "--join", f.hub, "--creds", f.creds("host", name), "--name", name}, flags...)
	return awaitKeeper(t, f.startPart(t, args...))
}

// startGateway starts a gateway.
func (f *fleetEnv) startGateway(t *testing.T, flags ...string) (p *program, url string) {
	t.Helper()
	p = f.startPart(t, append([]string{"gateway", "--creds", f.creds("gateway", "gate")}, flags...)...)
	return p, p.line(t)
}

// await waits until the hosts that the gateway can use are these, as "NAME STATE".
func (f *fleetEnv) await(t *testing.T, want ...string) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		got := f.tether(nil, "hosts")
		var rows []string
		for line := range strings.Lines(got.stdout) {
			if fields := strings.Fields(line); fields[0] != "NAME" {
				rows = append(rows, fields[0]+" "+fields[1])
			}
		}
		if strings.Join(rows, ", ") != strings.Join(want, ", ") {
			return fmt.Errorf("%+v, want %q", got, want)
		}
		return nil
	})
}

// A client runs commands on the hosts of a fleet as on one server. An operator sees the hosts, and drains them.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	a := f.startHost(t, "a", "--label", "gpu", "--label", "zone=eu", "--capacity", "7")
	f.startHost(t, "b")
	_, url := f.startGateway(t)
	f.await(t, "a reachable", "b reachable")
	where := func(query, environment string) end {
		t.Helper()
		return f.tether(nil, "run", "--url", url+query, "--", "sh", "-c", "tr '\\0' '\\n' </proc/$PPID/cmdline | grep -A 1 -x -e --name | tail -n 1; echo "+environment+"; exit 3")
	}
	for query, host := range map[string]string{"/?host=a": "a", "/?host=b": "b", "/?label=gpu": "a", "/?label=zone=eu&label=gpu": "a"} {
		if got, want := where(query, "[$"+instanceVariable+"$TETHER_CREDS]"), (end{3, host + "\n[" + f.credsVariable() + "]\n", ""}); got != want {
			t.Errorf("%s: %+v, want %+v", query, got, want)
		}
	}
	if got := where("/?label=tpu", ""); got.code != exitRefused || !strings.Contains(got.stderr, "the fleet has no host with the label tpu") {
		t.Errorf("a label that no host has: %+v", got)
	}
	if got := f.tether(nil, "run", "--url", a.url, "--", "echo", "hi"); got != (end{stdout: "hi\n"}) {
		t.Errorf("directly: %+v", got)
	}

	var hosts []struct {
		Name     string
		Labels   []string
		Capacity int
		State    string
	}
	if got := f.tether(nil, "hosts", "--json"); json.Unmarshal([]byte(got.stdout), &hosts) != nil || len(hosts) != 2 ||
		fmt.Sprint(hosts[0]) != "{a [gpu zone=eu] 7 reachable}" {
		t.Errorf("hosts --json: %+v", got)
	}

	watch := f.command("hosts", "--watch")
	changes := startUntil(t, watch, "NAME  STATE      RUNNING  SESSIONS  LOAD  AGE   VERSION  SANDBOX  LABELS\n")
	if got := f.tether(nil, "hosts", "drain", "a"); got != (end{}) {
		t.Fatalf("drain: %+v", got)
	}
	for line := ""; !strings.HasPrefix(line, "a     draining"); {
		var err error
		if line, err = changes.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	watch.Process.Signal(os.Interrupt)
	io.Copy(io.Discard, changes)
	if watch.Wait(); watch.ProcessState.ExitCode() != exitSignal+int(syscall.SIGINT) {
		t.Errorf("hosts --watch: %v", watch.ProcessState)
	}
	for range 4 {
		if got, want := where("", ""), (end{3, "b\n\n", ""}); got != want {
			t.Errorf("while a is drained: %+v", got)
		}
	}
	if got := where("/?host=a", ""); got.code != exitRefused || !strings.Contains(got.stderr, "draining") {
		t.Errorf("a new session on a drained host: %+v", got)
	}
	if got := f.tether(nil, "hosts", "undrain", "a"); got != (end{}) {
		t.Errorf("undrain: %+v", got)
	}
	f.await(t, "a reachable", "b reachable")
	if got := where("/?host=a", ""); got.code != 3 {
		t.Errorf("after undrain: %+v", got)
	}
	if got := f.tether(nil, "hosts", "drain", "c"); got.code != exitError || !strings.Contains(got.stderr, "there is no host c") {
		t.Errorf("a host that there is not: %+v", got)
	}

	a.Process.Signal(syscall.SIGTERM)
	a.Wait()
	f.await(t, "b reachable")
}

// credsVariable is the value of TETHER_CREDS that all parts and their commands have.
func (f *fleetEnv) credsVariable() string { return filepath.Join(f.work, "me.creds") }

// slowCount is a command that prints numbered lines for some seconds.
const slowCount = "for i in $(seq 1 60); do echo $i; sleep 0.05; done; exit 5"

// slowCounted is what slowCount prints.
func slowCounted() string {
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// startCounting runs the command through a gateway, and returns when it has begun.
func (f *fleetEnv) startCounting(t *testing.T, url string) (wait func() end) {
	t.Helper()
	cmd := f.command("run", "--url", url, "--", "sh", "-c", slowCount)
	cmd.Stderr = os.Stderr
	rest := startUntil(t, cmd, "1\n")
	return func() end {
		text, err := io.ReadAll(rest)
		if err != nil {
			t.Error(err)
		}
		cmd.Wait()
		return end{code: cmd.ProcessState.ExitCode(), stdout: "1\n" + string(text)}
	}
}

// A command and its client go on when the gateway between them is killed and another one listens in its place, also if the worker of the
// server is killed. The next worker has the same name in the fleet.
func TestFleetSurvivesKills(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	host := f.startHost(t, "a")
	gateway, url := f.startGateway(t)
	_, other := f.startGateway(t)
	f.await(t, "a reachable")
	want := end{code: 5, stdout: slowCounted()}

	if got := f.tether(nil, "run", "--url", url, "--detach", "--name", "counting", "--", "sh", "-c", slowCount); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	wait := f.startCounting(t, url)
	gateway.Process.Kill()
	gateway.Wait()
	f.startGateway(t, "--listen", url)
	if got := wait(); got != want {
		t.Errorf("through two gateways: %+v", got)
	}
	if got := f.tether(nil, "logs", "--url", other, "--follow", "counting"); got.stdout != want.stdout {
		t.Errorf("the detached command: %+v", got)
	}

	wait = f.startCounting(t, other)
	host.killWorker(t)
	if got := wait(); got != want {
		t.Errorf("with two workers: %+v", got)
	}
	if log := host.stderr.String(); strings.Contains(log, "another executor") {
		t.Errorf("the next worker was refused: %s", log)
	}
}

// A server goes on in the fleet with another program: also with a tether that has no fleet inside.
func TestFleetUpgrade(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	_, url := f.startGateway(t)
	next := filepath.Join(f.work, "tether")
	if text, err := exec.Command("cp", fleetBuilt(t), next).CombinedOutput(); err != nil {
		t.Fatal(err, string(text))
	}
	for name, program := range map[string]string{"fleet": next, "plain": f.self} {
		socket := "unix://" + filepath.Join(f.work, name+".sock")
		f.startHost(t, name, "--listen", socket)
		tethertest.Eventually(t, func() error {
			if got := f.tether(nil, "hosts"); !strings.Contains(got.stdout, "\n"+name+" ") {
				return fmt.Errorf("%+v", got)
			}
			return nil
		})
		wait := f.startCounting(t, url+"/?host="+name)
		if got := f.tether(nil, "upgrade", "--url", socket, "--to", program); got.code != 0 {
			t.Errorf("upgrade to %s: %+v", program, got)
		}
		if got, want := wait(), (end{code: 5, stdout: slowCounted()}); got != want {
			t.Errorf("during the upgrade to %s: %+v", program, got)
		}
	}
}

// A fleet refuses programs without valid credentials, and each part says why.
func TestFleetRefusals(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	host, gateway := f.creds("host", "a"), f.creds("gateway", "gate")
	foreign := filepath.Join(f.work, "foreign.creds")
	if got := f.tether(nil, "hub", "add-host", "a", "--state-dir", filepath.Join(f.work, "other"), "--out", foreign); got != (end{}) {
		t.Fatalf("%+v", got)
	}
	refuses := "the hub refuses the credentials in "
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--creds", foreign}, refuses + foreign},
		{[]string{"serve", "--creds", host, "--name", "b"}, "--name b: the credentials in " + host + " are those of the host a"},
		{[]string{"serve", "--creds", gateway}, "these are the credentials of the gateway gate; `tether hub add-host` makes others"},
		{[]string{"serve", "--creds", "missing"}, "--creds missing: no such file or directory"},
		{[]string{"serve", "--creds", f.self}, "the file has no credentials"},
		{[]string{"serve", "--creds", host, "--label", "A B"}, `--label: "A B" is not a label`},
		{[]string{"serve", "--creds", host, "--listen", "stdio"}, "`--join` needs a `--listen` URL"},
		{[]string{"serve", "--creds", host, "--join", "nats://10.1.2.3"}, "without encryption"},
		{[]string{"gateway", "--creds", host}, "these are the credentials of the host a; `tether hub add-gateway` makes others"},
		{[]string{"hosts", "--creds", gateway}, "`tether hub add-operator` makes others"},
		{[]string{"hub", "--listen", "nats://0.0.0.0:0"}, "without TLS"},
		{[]string{"hub", "--listen", "tls://127.0.0.1:0"}, "needs --tls-cert and --tls-key"},
		{[]string{"hub", "--listen", "nats://127.0.0.1:0"}, "another hub uses the directory; give this one another directory with --state-dir"},
		{[]string{"hub", "--listen", "nats://127.0.0.1:0", "--state-dir", "third", "--metrics", "0.0.0.0:0"}, "refusing --metrics 0.0.0.0:0 without encryption"},
		{[]string{"hub", "--listen", "nats://0.0.0.0:0", "--check-config"}, "without TLS"},
		{[]string{"gateway", "--creds", gateway, "--listen", "ws://0.0.0.0:0", "--check-config"}, "without authentication"},
		{[]string{"hub", "add-host", "A"}, `"A" is not a name for a host`},
		{[]string{"hub", "add-host", "a", "--out", host}, "the file exists; --force replaces it"},
		{[]string{"hub", "revoke", "client", "a"}, `unknown kind "client"`},
		{[]string{"hub", "revoke", "host"}, "the NAME is missing"},
		{[]string{"hub", "begin"}, `unknown command "begin"`},
	} {
		args := row.args
		if args[0] == "serve" && !strings.Contains(fmt.Sprint(args), "--join") {
			args = append(args, "--join", f.hub)
		}
		got := f.tether(nil, args...)
		if got.code != exitError && got.code != exitUsage || !strings.Contains(got.stderr, row.want) {
			t.Errorf("%v: %+v, want %q", args, got, row.want)
		}
	}

	// With --listen the server serves its own clients, whatever the fleet says.
	own := f.startPart(t, "serve", "--join", f.hub, "--creds", foreign, "--listen", "ws://127.0.0.1:0", "--no-keeper")
	url := own.line(t)
	if got := f.tether(nil, "run", "--url", url, "--", "echo", "hi"); got != (end{stdout: "hi\n"}) {
		t.Errorf("%+v", got)
	}
	tethertest.Eventually(t, func() error {
		if log := own.stderr.String(); !strings.Contains(log, `"level":"ERROR","msg":"this server is not in the fleet`) {
			return errors.New(log)
		}
		return nil
	})
	own.Process.Signal(syscall.SIGTERM)
	if own.Wait(); own.ProcessState.ExitCode() != 0 {
		t.Errorf("%v: %s", own.ProcessState, own.stderr)
	}

	// A name that another executor has.
	f.startGateway(t)
	f.startHost(t, "a")
	f.await(t, "a reachable")
	second := f.startPart(t, "serve", "--join", f.hub, "--creds", host)
	second.line(t)
	if second.Wait(); second.ProcessState.ExitCode() != exitError || !strings.Contains(second.stderr.String(), "another executor has joined the fleet with this name") {
		t.Errorf("%v: %s", second.ProcessState, second.stderr)
	}

	// Revoked credentials.
	if got := f.tether(nil, "hub", "revoke", "operator", "me"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	tethertest.Eventually(t, func() error { // the hub looks every second
		if got := f.tether(nil, "hosts"); !strings.Contains(got.stderr, refuses) {
			return errors.New(got.stderr)
		}
		return nil
	})
}

// A hub tells its figures, and whether it serves.
func TestHubMetrics(t *testing.T) {
	t.Parallel()
	f := &fleetEnv{testEnv: newTestEnv(t)}
	f.env = append(f.env, "PATH="+filepath.Dir(fleetBuilt(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	hub := f.startPart(t, "hub", "--listen", "nats://127.0.0.1:0", "--metrics", address)
	hub.line(t)
	for page, want := range map[string]string{"/metrics": "\ntether_hub_directory_available 1\n", "/healthz": "", "/readyz": ""} {
		resp, err := http.Get("http://" + address + page)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("%s: %s, %v: %s", page, resp.Status, err, text)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	hub.Process.Signal(syscall.SIGTERM)
	hub.endsWith(t, 0)
}

// The demonstration runs, and does what it says.
func TestFleetDemo(t *testing.T) {
	t.Parallel()
	f := newTestEnv(t)
	cmd := exec.CommandContext(t.Context(), "../../scripts/fleet-demo", "--check")
	cmd.Env = append(f.env, "PATH="+filepath.Dir(fleetBuilt(t))+string(os.PathListSeparator)+os.Getenv("PATH"), "TETHER="+f.self)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	f.isEmpty()
}
