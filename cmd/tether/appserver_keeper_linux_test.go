package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/executable"
)

// An appRig is an app-server with a keeper, on a socket file.
type appRig struct {
	*keptServer
	socket string
	marker string // in the environment of all commands
}

// startApp starts the app-server of the program at path.
func startApp(t *testing.T, path string) *appRig {
	t.Helper()
	dir := t.TempDir()
	r := &appRig{socket: filepath.Join(dir, "app.sock"), marker: "TETHER_APP_TEST=" + dir}
	cmd := exec.CommandContext(t.Context(), path, "app-server", "--listen", "unix://"+r.socket)
	r.keptServer = awaitKeeper(t, startProgram(t, []string{r.marker}, cmd))
	return r
}

// connectApp opens a connection and returns it with the user agent that the server reports.
func connectApp(t *testing.T, url string) (c *tethertest.Client, agent string) {
	t.Helper()
	c = tethertest.Dial(t, url)
	return c, helloApp(c)
}

func helloApp(c *tethertest.Client) (agent string) {
	var hello struct{ UserAgent string }
	c.Must("initialize", map[string]any{
		"clientInfo":   map[string]any{"name": "test", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true},
	}, &hello)
	return hello.UserAgent
}

// spawn starts a shell command without a time limit.
func spawn(c *tethertest.Client, handle string, tty bool, script string) {
	c.Must("process/spawn", map[string]any{
		"command": []string{"sh", "-c", script}, "processHandle": handle, "cwd": "/", "tty": tty, "timeoutMs": nil,
	}, nil)
}

// output runs a shell command to its end, and returns its output.
func output(t *testing.T, c *tethertest.Client, script string) string {
	t.Helper()
	spawn(c, "output", false, script)
	var exited struct{ Stdout string }
	m := c.Await("exit", func(m tethertest.Message) bool { return m.Method == "process/exited" })
	if err := json.Unmarshal(m.Params, &exited); err != nil {
		t.Fatal(err)
	}
	return exited.Stdout
}

// family ignores the signals that ask it to end, and starts a process in a session of its own, whose parent has ended.
// A third process is a plain child.
const family = `trap '' TERM HUP; (setsid sh -c 'exec sleep 1003' >/dev/null 2>&1 </dev/null &); sleep 1002 & while :; do sleep 1001; done`

// commands returns the processes with the marker, except keeper and workers.
func (r *appRig) commands() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		env, err := os.ReadFile(name)
		if err == nil && bytes.Contains(env, []byte(r.marker+"\x00")) && !bytes.Contains(line, []byte("\x00app-server\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// startFamilies starts a family with pipes and one with a terminal, and returns when all their processes run.
func (r *appRig) startFamilies(t *testing.T, c *tethertest.Client) {
	t.Helper()
	spawn(c, "pipes", false, family)
	spawn(c, "terminal", true, family)
	tethertest.Eventually(t, func() error {
		count := map[string]int{}
		for _, pid := range r.commands() {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			count[string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))]++
		}
		for _, time := range []string{"1001", "1002", "1003"} {
			if count["sleep "+time+" "] != 2 {
				return fmt.Errorf("the commands have not started all processes: %v", count)
			}
		}
		return nil
	})
}

// cgroupsOf lists the control groups that a process of this server has made.
func (r *appRig) cgroupsOf(pid int) (names []string) {
	for _, pattern := range (&storm{keptServer: r.keptServer}).cgroups() {
		own, _ := filepath.Glob(filepath.Join(filepath.Dir(pattern), fmt.Sprintf("tether-%d-*", pid)))
		names = append(names, own...)
	}
	return names
}

// nothingLeft checks that no command, no socket file and no control group of a worker is left after the end of the server.
func (r *appRig) nothingLeft(t *testing.T, workers ...int) {
	t.Helper()
	if left := r.commands(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	if _, err := os.Lstat(r.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket file is left: %v", err)
	}
	for _, pid := range workers {
		if left := r.cgroupsOf(pid); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
	}
}

// When the worker of an app-server is killed, its commands end with everything that they started, before the next worker
// answers a client on the same address. The service goes on.
func TestAppServerSurvivesItsWorkers(t *testing.T) {
	t.Parallel()
	r := startApp(t, newTestEnv(t).self)
	var workers []int
	for range 2 {
		c, _ := connectApp(t, r.url)
		r.startFamilies(t, c)
		worker := r.awaitWorker(t, 0)
		workers = append(workers, worker)
		syscall.Kill(worker, syscall.SIGKILL)
		c.Ended()
		next, _ := connectApp(t, r.url) // waits for the next worker
		if left := r.commands(); len(left) > 0 {
			t.Errorf("processes of the dead worker are left: %v", left)
		}
		if got := output(t, next, "echo $PPID"); got != fmt.Sprintln(r.awaitWorker(t, worker)) {
			t.Errorf("the parent of a command is %q", got)
		}
		tethertest.Eventually(t, func() error {
			if left := r.cgroupsOf(worker); len(left) > 0 {
				return fmt.Errorf("control groups of the dead worker are left: %v", left)
			}
			return nil
		})
		next.Close()
	}
	c, _ := connectApp(t, r.url)
	r.startFamilies(t, c)
	r.stop(t)
	r.nothingLeft(t, append(workers, r.Process.Pid)...)
}

// An app-server that is told to stop just after its worker was killed ends in order.
func TestAppServerStopsAfterItsWorker(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{false, true} {
		r := startApp(t, newTestEnv(t).self)
		c, _ := connectApp(t, r.url)
		r.startFamilies(t, c)
		worker := r.awaitWorker(t, 0)
		syscall.Kill(worker, syscall.SIGKILL)
		if wait {
			r.awaitWorker(t, worker) // it does not serve yet
		}
		r.stop(t)
		r.nothingLeft(t, worker)
	}
}

// SIGHUP upgrades an app-server whose program has changed. Its connections end with the reason, and with their commands.
func TestAppServerUpgrade(t *testing.T) {
	t.Parallel()
	first, second := variant(t, "version-first"), filepath.Join(t.TempDir(), "version-second")
	if err := executable.Copy(first, second); err != nil { // a link would be the same file
		t.Fatal(err)
	}
	r := startApp(t, first)
	c, agent := connectApp(t, r.url)
	if !strings.HasPrefix(agent, "test/first ") {
		t.Errorf("the version is in %q", agent)
	}
	r.startFamilies(t, c)
	worker := r.awaitWorker(t, 0)
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(second, first); err != nil {
		t.Fatal(err)
	}
	r.Process.Signal(syscall.SIGHUP)
	if err := c.Ended(); !strings.Contains(fmt.Sprint(err), "1012") {
		t.Errorf("the connection has ended with %v", err)
	}
	_, agent = connectApp(t, r.url)
	if !strings.HasPrefix(agent, "test/second ") {
		t.Errorf("the version is in %q", agent)
	}
	if left := r.commands(); len(left) > 0 {
		t.Errorf("processes of the old worker are left: %v", left)
	}
	r.stop(t)
	r.nothingLeft(t, worker)
}

// With --no-keeper, and on standard input and output, an app-server is one process.
func TestAppServerWithoutKeeper(t *testing.T) {
	t.Parallel()
	p := startTether(t, "app-server", "--no-keeper", "--listen", "unix://"+filepath.Join(t.TempDir(), "app.sock"))
	c, _ := connectApp(t, p.line(t))
	if got := output(t, c, "echo $PPID"); got != fmt.Sprintln(p.Process.Pid) {
		t.Errorf("the server is %d, a command has the parent %q", p.Process.Pid, got)
	}
	p.Process.Signal(syscall.SIGTERM)
	p.endsWith(t, 0)

	p = startTether(t, "app-server")
	lines := tethertest.NewLines(t, p.output.(io.ReadCloser), p.stdin)
	helloApp(lines)
	if got := output(t, lines, "echo $PPID"); got != fmt.Sprintln(p.Process.Pid) {
		t.Errorf("on standard input and output the server is %d, a command has the parent %q", p.Process.Pid, got)
	}
	lines.Close()
	p.Wait()
}
