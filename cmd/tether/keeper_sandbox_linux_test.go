package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A talk is a command that answers each line of its input with a line.
type talk struct {
	*client.Process
	lines *bufio.Reader
}

func startTalk(t *testing.T, c *client.Client, cmd client.Command) *talk {
	t.Helper()
	cmd.Stdin = true
	p, err := c.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() { // ends with the process
		_, err := p.CopyOutput(t.Context(), w, w)
		w.CloseWithError(err)
	}()
	t.Cleanup(func() { r.Close() })
	return &talk{p, bufio.NewReader(r)}
}

// ask writes a line and returns the answer.
func (p *talk) ask(t *testing.T, line string) string {
	t.Helper()
	if err := p.Write(t.Context(), []byte(line+"\n")); err != nil {
		t.Fatal(err)
	}
	return p.answer(t)
}

func (p *talk) answer(t *testing.T) string {
	t.Helper()
	text, err := p.lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", text, err)
	}
	return strings.TrimSuffix(text, "\n")
}

// fetches answers a line "VARIABLE HOST" with the status of a request to the host and the code of curl, through the proxy that the variable
// names. A line "wait FIFO" answers "waits", and the line that comes through the FIFO is answered then.
const fetches = `while read -r proxy host; do
	if [ "$proxy" = wait ]; then echo waits; read -r proxy host <"$host"; fi
	eval "proxy=\$$proxy"
	status=$(curl -s -m 60 --noproxy '' -x "$proxy" -o /dev/null -w '%{http_code}' "http://$host/")
	echo $status $?
done`

// The network of a command is served again by the next worker, with the same sockets and rules: a proxy of its own in
// a network of its own, one on the loopback of the machine, and the way to a proxy that the client has prepared.
func TestNetworksSurviveWorkers(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	s := startKept(t)
	c := dialKept(t, s.url)
	allowed, other := startWebServer(t), startWebServer(t)
	prepared := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot) // whatever the host is
	}))
	t.Cleanup(prepared.Close)
	network := &client.Network{Allow: []string{allowed}, Direct: true}
	shell := []string{"sh", "-c", fetches}
	commands := map[string]*talk{
		"managed": startTalk(t, c, client.Command{Argv: shell, Network: network}),
		"outside": startTalk(t, c, client.Command{Argv: shell, Network: network, Params: func(p *wire.StartParams) {
			p.Sandbox, p.EnforceManagedNetwork = nil, false
		}}),
		"prepared": startTalk(t, c, client.Command{Argv: shell, Network: network, Env: map[string]string{"HTTP_PROXY": prepared.URL}, Params: func(p *wire.StartParams) {
			p.NetworkProxy = nil
		}}),
	}
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	for round := range tethertest.Scaled(1, 3) {
		for name, p := range commands {
			want := map[string]string{"HTTP_PROXY " + allowed: "200 0", "ALL_PROXY " + allowed: "200 0", "HTTP_PROXY " + other: "403 0", "ALL_PROXY " + other: "000 97"}
			if name == "prepared" {
				want = map[string]string{"HTTP_PROXY " + other: "418 0"}
			}
			for ask, want := range want {
				if got := p.ask(t, ask); got != want {
					t.Errorf("round %d, %s, %s: %s, want %s", round, name, ask, got, want)
				}
			}
			if got := p.ask(t, "wait "+gate); got != "waits" {
				t.Fatal(got)
			}
			before := s.awaitWorker(t, 0)
			syscall.Kill(before, syscall.SIGKILL)
			if err := os.WriteFile(gate, fmt.Appendln(nil, "HTTP_PROXY", allowed), 0); err != nil { // its connection waits for the next worker
				t.Fatal(err)
			}
			if got := p.answer(t); got != "200 0" && got != "418 0" {
				t.Errorf("round %d, %s: while there was no worker: %s", round, name, got)
			}
			s.awaitWorker(t, before)
		}
	}
	for name, p := range commands {
		p.CloseStdin(t.Context())
		if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 0 {
			t.Errorf("%s: %+v, %v", name, exit, err)
		}
	}
	s.stop(t)
}

// sandboxedPoints are the lasting effects of a sandboxed start with a network of its own. Holds: the lock of the control
// groups, the launcher, the process, the report, the listeners.
var sandboxedPoints = tethertest.Scaled(
	[]string{"confine.placeholders:1", "keep.hold:2", "keep.hold:4", "proc.cloned:1", "proc.reported:1"},
	[]string{
		"arena.slot.take:1", "confine.placeholders:1", "keep.hold:1", "keep.hold:2", "keep.hold:3", "keep.hold:4", "keep.hold:5",
		"proc.detail:1", "proc.detail:2", "proc.detail:3", "proc.detail:4", "proc.detail:5", "proc.starting:1", "proc.cloned:1", "proc.reported:1", "proc.running:1",
	},
)

// A worker that dies in the middle of a sandboxed start leaves nothing half built: the command runs once, confined and with
// its network, and after its end there is no process, no placeholder and no control group.
func TestSandboxedStartSurvivesWorkers(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	for _, point := range sandboxedPoints {
		for _, way := range tethertest.Scaled([]string{"kill"}, []string{"kill", "panic", "segv"}) {
			where := point + "," + way
			t.Run(where, func(t *testing.T) {
				t.Parallel()
				s := startKept(t, crash.Variable+"="+where, crash.WorkerVariable+"=1")
				first := s.awaitWorker(t, 0)
				c := dialKept(t, s.url)
				allowed, dir := startWebServer(t), t.TempDir()
				sandbox := workspaceWrite(t, dir)
				p := startTalk(t, c, client.Command{
					Argv: []string{"sh", "-c", "echo once >>count; mkdir .git 2>/dev/null && echo made >>count;" + fetches + "; exit 3"},
					Dir:  dir, Sandbox: sandbox, Network: &client.Network{Allow: []string{allowed}, Direct: true},
				})
				if got := p.ask(t, "HTTP_PROXY "+allowed); got != "200 0" {
					t.Errorf("through the proxy: %s", got)
				}
				s.awaitWorker(t, first)
				if list, _ := os.ReadDir(dir); len(list) < 2 { // count, .git, and other protected names
					t.Errorf("there are no placeholders: %v", list)
				}
				p.CloseStdin(t.Context())
				if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 3 {
					t.Errorf("%+v, %v", exit, err)
				}
				if text, err := os.ReadFile(filepath.Join(dir, "count")); err != nil || string(text) != "once\n" {
					t.Errorf("it has done %q, %v", text, err)
				}
				if err := c.End(t.Context()); err != nil {
					t.Error(err)
				}
				nothingLeft(t, s, dir, "count")
				s.stop(t)
				if groups := s.controlGroups(); len(groups) > 0 {
					t.Errorf("control groups are left: %v", groups)
				}
			})
		}
	}
}

// controlGroups returns the directory of the server's control groups, if there is one.
func (s *keptServer) controlGroups() (found []string) {
	memberships, _ := os.ReadFile("/proc/self/cgroup")
	_, own, _ := strings.Cut(string(memberships), "0::")
	own, _, _ = strings.Cut(own, "\n")
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		dir := filepath.Join(mount, own, fmt.Sprintf("tether-%d-0", s.Process.Pid))
		if _, err := os.Stat(dir); err == nil {
			found = append(found, dir)
		}
	}
	return found
}

// nothingLeft waits until a server has no commands any more, and a directory nothing but these files.
func nothingLeft(t *testing.T, s *keptServer, dir string, files ...string) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.Process.Pid))
		if n := len(strings.Fields(string(children))); err != nil || n != 1 {
			return fmt.Errorf("the keeper has %d children, %v", n, err)
		}
		var names []string
		list, err := os.ReadDir(dir)
		for _, entry := range list {
			names = append(names, entry.Name())
		}
		if err != nil || !slices.Equal(names, files) {
			return fmt.Errorf("left in the directory: %q, %v", names, err)
		}
		for _, parent := range s.controlGroups() {
			if populated, _ := os.ReadFile(filepath.Join(parent, "cgroup.events")); strings.Contains(string(populated), "populated 1") {
				return fmt.Errorf("there are processes in %s", parent)
			}
		}
		return nil
	})
}

// A command that fails in its sandbox after its worker has died is explained as if the worker had not died.
func TestDenialSurvivesWorkers(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	s := startKept(t)
	c := dialKept(t, s.url)
	dir := t.TempDir()
	sandbox := workspaceWrite(t, dir)
	fail := func(kill bool) client.Exit {
		p := startTalk(t, c, client.Command{Argv: []string{"sh", "-c", "echo runs; read -r x; mkdir .git/hooks || exit 7"}, Dir: dir, Sandbox: sandbox})
		if got := p.answer(t); got != "runs" {
			t.Fatal(got)
		}
		if kill {
			s.killWorker(t)
		}
		p.ask(t, "go")
		exit, err := p.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return exit
	}
	want := fail(false)
	if want.Code != 7 || !want.SandboxDenied || want.Denial == nil || want.Denial.Path == nil {
		t.Fatalf("without a death: %+v", want)
	}
	got := fail(true)
	if got.Usage, want.Usage = nil, nil; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %+v, want %+v %+v", got, got.Denial, want, want.Denial)
	}
	s.stop(t)
}

// A server that is stopped right after its worker was replaced removes the placeholders of earlier workers, and those that
// another server guards when they are free.
func TestStopRemovesPlaceholdersOfEarlierWorkers(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	t.Run("worker lives", func(t *testing.T) { stopWithPlaceholders(t) })
	t.Run("worker dies", func(t *testing.T) { // when it has started the process that removes the placeholders later
		stopWithPlaceholders(t, crash.Variable+"=keep.leave:1", crash.WorkerVariable+"=2")
	})
}

func stopWithPlaceholders(t *testing.T, env ...string) {
	t.Parallel()
	s := startKept(t, env...)
	c := dialKept(t, s.url)
	dir := t.TempDir()
	sandbox := workspaceWrite(t, dir)
	p := startTalk(t, c, client.Command{Argv: []string{"sh", "-c", "echo runs; cat"}, Dir: dir, Sandbox: sandbox})
	if got := p.answer(t); got != "runs" {
		t.Fatal(got)
	}
	if list, _ := os.ReadDir(dir); len(list) == 0 {
		t.Fatal("there are no placeholders")
	}
	s.killWorker(t)
	if got := p.ask(t, "still"); got != "still" {
		t.Fatal(got)
	}
	guard, err := os.Open(filepath.Join(dir, ".codex"))
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	if err := filelock.Try(int(guard.Fd()), filelock.Shared); err != nil { // as the server of another user would
		t.Fatal(err)
	}
	s.stop(t)
	if len(env) > 0 && !strings.Contains(s.stderr.String(), "crash point keep.leave") {
		t.Error("no worker has died there")
	}
	left := func(want ...string) {
		t.Helper()
		tethertest.Eventually(t, func() error { // the keeper may have had the locks for a moment longer: then another process removes them
			list, err := os.ReadDir(dir)
			var names []string
			for _, e := range list {
				names = append(names, e.Name())
			}
			if err != nil || !slices.Equal(names, want) {
				return fmt.Errorf("left: %v, %v", list, err)
			}
			return nil
		})
	}
	left(".codex")
	guard.Close()
	left()
}
