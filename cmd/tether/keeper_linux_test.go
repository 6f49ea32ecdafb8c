package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
	"github.com/tetherexec/tether/wire"
)

// A keptServer is a server with a keeper.
type keptServer struct {
	*program
	url string
}

// startKept starts a server whose workers are replaced at once, however often they die.
func startKept(t *testing.T, env ...string) *keptServer {
	t.Helper()
	return startKeeper(t, append(env, hastyVariable+"=1"))
}

// startKeeper starts a server with a keeper.
func startKeeper(t *testing.T, env []string, flags ...string) *keptServer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startKeeperProgram(t, self, env, flags...)
}

// startKeeperProgram is startKeeper with a copy of the program.
func startKeeperProgram(t *testing.T, path string, env []string, flags ...string) *keptServer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, append([]string{"serve", "--keeper"}, flags...)...)
	return awaitKeeper(t, startProgram(t, env, cmd))
}

// awaitKeeper returns when a server with a keeper listens.
func awaitKeeper(t *testing.T, p *program) *keptServer {
	t.Helper()
	if err := keep.Probe(); err != nil {
		need.CannotRun(t, "there is no keeper on this machine: %v", err)
	}
	s := &keptServer{p, p.line(t)}
	t.Cleanup(func() {
		p.Process.Kill()
		if p.Wait(); t.Failed() {
			t.Logf("log of the server: %s", tail(p.stderr.Bytes()))
		}
	})
	return s
}

// tail is the end of a log.
func tail(log []byte) []byte { return log[max(0, len(log)-80000):] }

// worker returns the pid of the present worker; 0: there is none.
func (s *keptServer) worker() int {
	list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.Process.Pid))
	for _, field := range strings.Fields(string(list)) {
		command, _ := os.ReadFile("/proc/" + field + "/cmdline")
		if pid, err := strconv.Atoi(field); err == nil && bytes.Contains(command, []byte("\x00be-child\x00worker\x00")) {
			return pid
		}
	}
	return 0
}

// awaitWorker returns the pid of a worker that is not the one before.
func (s *keptServer) awaitWorker(t *testing.T, before int) (pid int) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		if pid = s.worker(); pid == 0 || pid == before {
			return errors.New("there is no new worker")
		}
		return nil
	})
	return pid
}

// killWorker kills the present worker and returns when there is another one.
func (s *keptServer) killWorker(t *testing.T) {
	t.Helper()
	pid := s.awaitWorker(t, 0)
	syscall.Kill(pid, syscall.SIGKILL)
	s.awaitWorker(t, pid)
}

// A worker that dies between making a spool file and removing its name leaves the name, and the next one removes it.
func TestKeeperLeavesNoSpoolFiles(t *testing.T) {
	t.Parallel()
	s := startKept(t)
	s.awaitWorker(t, 0)
	spools := func() []string {
		return slices.DeleteFunc(s.stateFiles(), func(name string) bool { return !strings.HasPrefix(filepath.Base(name), "spool-") })
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(s.stateFiles()[0]), "spool-1"), nil, 0o600); err != nil || len(spools()) != 1 {
		t.Fatal(err, spools())
	}
	s.killWorker(t)
	tethertest.Eventually(t, func() error {
		if left := spools(); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	s.stop(t)
}

// stop ends the server and checks that it leaves no process and no state.
func (s *keptServer) stop(t *testing.T) {
	t.Helper()
	s.Process.Signal(syscall.SIGTERM)
	s.Wait()
	if code := s.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the server has ended with %v", s.ProcessState)
	}
	for _, entry := range s.Env {
		if dir, ok := strings.CutPrefix(entry, "XDG_STATE_HOME="); ok {
			if left, _ := filepath.Glob(filepath.Join(dir, "tether", "server-*")); len(left) > 0 {
				t.Errorf("left in the state directory: %v", left)
			}
		}
	}
}

func dialKept(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), url, client.Options{Wait: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// numbered prints lines 1 to n, slowly enough that several workers see them.
func numbered(n int) []string {
	return []string{"sh", "-c", fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; [ $((i%%50)) = 0 ] && sleep 0.02; done; exit 3", n)}
}

// checkNumbered checks output of numbered.
func checkNumbered(t *testing.T, name, out string, n int) {
	t.Helper()
	var want strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintln(&want, i)
	}
	if out = strings.ReplaceAll(out, "\r\n", "\n"); out != want.String() {
		lines := strings.Split(out, "\n")
		t.Errorf("%s: %d lines of %d, the last %q", name, len(lines)-1, n, lines[max(0, len(lines)-3):])
	}
}

// killWhileRunning kills workers until done is closed, but at most so many.
func (s *keptServer) killWhileRunning(t *testing.T, most int, pause time.Duration, done <-chan struct{}) (killed int) {
	for killed < most {
		select {
		case <-done:
			return killed
		case <-time.After(pause):
			s.killWorker(t)
			killed++
		}
	}
	return killed
}

// The output and the exit code of commands survive workers that are killed: each byte comes once.
func TestOutputSurvivesWorkers(t *testing.T) {
	t.Parallel()
	s := startKept(t)
	c := dialKept(t, s.url)
	const lines = 3000
	type result struct {
		name, out string
		exit      client.Exit
		err       error
	}
	results := make(chan result)
	for _, cmd := range []client.Command{{ID: "pipe"}, {ID: "terminal", TTY: true}, {ID: "one stream", OneStream: true}} {
		cmd.Argv = numbered(lines)
		p, err := c.Start(t.Context(), cmd)
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends with the process
			var out bytes.Buffer
			exit, err := p.CopyOutput(t.Context(), &out, &out)
			results <- result{p.ID(), out.String(), exit, err}
		}()
	}
	done := make(chan struct{})
	killing := make(chan int)
	go func() { killing <- s.killWhileRunning(t, 5, 150*time.Millisecond, done) }()
	for range 3 {
		r := <-results
		if r.err != nil || r.exit.Code != 3 {
			t.Errorf("%s: %+v, %v", r.name, r.exit, r.err)
		}
		checkNumbered(t, r.name, r.out, lines)
	}
	close(done)
	if killed := <-killing; killed == 0 {
		t.Error("no worker was killed")
	}
	s.stop(t)
}

// Input that was accepted reaches its command once, and the end of the input too.
func TestInputSurvivesWorkers(t *testing.T) {
	t.Parallel()
	s := startKept(t)
	c := dialKept(t, s.url)
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	copied := make(chan error, 1)
	go func() { // ends with the process
		_, err := p.CopyOutput(t.Context(), &out, io.Discard)
		copied <- err
	}()
	const lines = 300
	for i := 1; i <= lines; i++ {
		if err := p.Write(t.Context(), fmt.Appendln(nil, i)); err != nil {
			t.Fatal(i, err)
		}
		if i%60 == 0 {
			s.killWorker(t)
		}
	}
	if err := p.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-copied; err != nil {
		t.Error(err)
	}
	checkNumbered(t, "cat", out.String(), lines)
	s.stop(t)
}

// A client that recovers as the reference client does loses nothing when workers are killed.
func TestReferenceClientSurvivesWorkers(t *testing.T) {
	t.Parallel()
	s := startKept(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := tethertest.DialRef(ctx, s.url, tethertest.RefOptions{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const lines = 2000
	var out, echoed bytes.Buffer
	p, err := c.Start(ctx, tethertest.RefStart{ID: "p", Argv: numbered(lines), OnOutput: func(_ uint64, _ string, data []byte) { out.Write(data) }})
	if err != nil {
		t.Fatal(err)
	}
	cat, err := c.Start(ctx, tethertest.RefStart{ID: "cat", Argv: []string{"head", "-n", "3"}, PipeStdin: true, OnOutput: func(_ uint64, _ string, data []byte) { echoed.Write(data) }})
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= 3; i++ {
		if status, err := cat.Write(ctx, fmt.Appendln(nil, i)); err != nil || status != "accepted" {
			t.Fatal(status, err)
		}
		s.killWorker(t)
		tethertest.Eventually(t, func() error {
			if c.Recoveries() < i {
				return fmt.Errorf("%d recoveries", c.Recoveries())
			}
			return nil
		})
	}
	for name, want := range map[*tethertest.RefProcess]int{p: 3, cat: 0} {
		if result, err := name.Wait(ctx); err != nil || result.ExitCode != want {
			t.Errorf("%+v, %v", result, err)
		}
	}
	checkNumbered(t, "p", out.String(), lines)
	checkNumbered(t, "cat", echoed.String(), 3)
	s.stop(t)
}

// A command that ends while there is no worker, or just before, is reported with its exit code.
func TestExitWithoutWorker(t *testing.T) {
	t.Parallel()
	s := startKept(t)
	c := dialKept(t, s.url)
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", "echo begin; read x <" + gate + "; echo end; exit 9"}})
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(s.awaitWorker(t, 0), syscall.SIGKILL)
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if exit, err := p.CopyOutput(t.Context(), &out, io.Discard); err != nil || exit.Code != 9 || out.String() != "begin\nend\n" {
		t.Errorf("%+v, %v, %q", exit, err, out.String())
	}
	s.stop(t)
}

// workspaceWrite returns a sandbox in which only a directory can be written.
func workspaceWrite(t *testing.T, dir string) *wire.Sandbox {
	t.Helper()
	flags := sandboxFlags{profile: "workspace-write", flag: "--sandbox"}
	sandbox, err := flags.intent(dir)
	if err != nil {
		t.Fatal(err)
	}
	return sandbox
}

// A sandboxed command survives workers too, confined as before: its sandbox ends with the keeper and not with the worker. What
// protects the names that it must not create is held, and removed after its end.
func TestSandboxSurvivesWorkers(t *testing.T) {
	t.Parallel()
	s := startKept(t)
	c := dialKept(t, s.url)
	dir := t.TempDir()
	sandbox := workspaceWrite(t, dir)
	const lines = 2000
	var out bytes.Buffer
	script := strings.Join(numbered(lines)[2:], "") // ends with exit 3
	script = "echo once >>count; mkdir .git && echo made; " + script
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sh", "-c", script}, Dir: dir, Sandbox: sandbox, OneStream: true})
	if err != nil && strings.Contains(err.Error(), "sandbox") {
		need.CannotRun(t, "there is no sandbox on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	killing := make(chan int)
	go func() { killing <- s.killWhileRunning(t, 4, 200*time.Millisecond, done) }()
	exit, err := p.CopyOutput(t.Context(), &out, &out)
	close(done)
	if killed := <-killing; err != nil || exit.Code != 3 || killed == 0 {
		t.Errorf("%+v, %v, %d workers were killed", exit, err, killed)
	}
	refusal, rest, _ := strings.Cut(out.String(), "\n")
	if !strings.Contains(refusal, ".git") {
		t.Errorf("the command could create a name that it must not: %q", refusal)
	}
	checkNumbered(t, "sandboxed", rest, lines)
	if text, err := os.ReadFile(filepath.Join(dir, "count")); err != nil || string(text) != "once\n" {
		t.Errorf("it has run %d times, %v", bytes.Count(text, []byte("\n")), err)
	}
	tethertest.Eventually(t, func() error {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the placeholder is still there: %v", err)
		}
		return nil
	})
	s.stop(t)
}
