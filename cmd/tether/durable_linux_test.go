package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
	"github.com/tetherexec/tether/wire"
)

// A durableHome is where durable servers follow each other: a state directory and an address.
type durableHome struct {
	dir, url string
	env      []string
	flags    []string
}

func newDurableHome(t *testing.T, flags ...string) *durableHome {
	t.Helper()
	h := &durableHome{dir: t.TempDir(), flags: flags}
	h.url = fmt.Sprintf("ws://127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)) // no other program uses these addresses
	t.Cleanup(func() {
		if name := h.memory(); name != "" {
			os.Remove(name)
		}
	})
	return h
}

// memory is the path of the memory file; "": there is none.
func (h *durableHome) memory() string {
	name, _ := os.ReadFile(filepath.Join(h.dir, "durable", "memory"))
	return string(name)
}

// start starts the next server.
func (h *durableHome) start(t *testing.T) *keptServer {
	t.Helper()
	s := startKeeper(t, append(h.env, hastyVariable+"=1"), append([]string{"--durable", "process", "--state-dir", h.dir, "--listen", h.url}, h.flags...)...)
	h.url = s.url
	return s
}

// refused starts a server that must not start, and returns what it prints.
func (h *durableHome) refused(t *testing.T, flags ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, h.env, exec.CommandContext(t.Context(), self, append([]string{"serve", "--durable", "process", "--state-dir", h.dir}, flags...)...))
	if p.Wait(); p.ProcessState.ExitCode() != 1 {
		t.Errorf("it has ended with %v", p.ProcessState)
	}
	return p.stderr.String()
}

// crash kills the processes of a server, and returns when they are gone.
func (s *keptServer) crash(t *testing.T, which string) {
	t.Helper()
	worker := s.awaitWorker(t, 0)
	for _, one := range strings.Fields(which) {
		pid := s.Process.Pid
		if one == "worker" {
			pid = worker
		}
		syscall.Kill(pid, syscall.SIGKILL)
	}
	s.Wait()
}

// follow copies the output of a process.
type followed struct {
	out  bytes.Buffer
	exit client.Exit
	err  error
	done chan struct{}
}

func follow(ctx context.Context, p *client.Process) *followed {
	f := &followed{done: make(chan struct{})}
	go func() { // ends with the process
		defer close(f.done)
		f.exit, f.err = p.CopyOutput(ctx, &f.out, &f.out)
	}()
	return f
}

// checkPrefix checks that the output is the beginning of what counting prints.
func checkPrefix(t *testing.T, name, out string) {
	t.Helper()
	lines := strings.Split(strings.ReplaceAll(out, "\r\n", "\n"), "\n")
	rest := strings.TrimSuffix(lines[len(lines)-1], "\r")
	for i, line := range lines[:len(lines)-1] {
		if line != strconv.Itoa(i+1) {
			t.Errorf("%s: line %d is %q", name, i+1, line)
			return
		}
	}
	if !strings.HasPrefix(strconv.Itoa(len(lines)), rest) {
		t.Errorf("%s: %d lines, then %q", name, len(lines)-1, rest)
	}
}

// counting prints numbers until it is ended.
var counting = []string{"sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; [ $((i%100)) = 0 ] && sleep 0.002; done"}

// When the keeper dies, alone or with the worker, the next durable server goes on with its sessions: clients get the output up to
// the end without a gap, then an exit that says what happened. Exits that were recorded before are kept, and nothing that the
// commands have started runs on.
func TestDurableServerFollowsAKilledOne(t *testing.T) {
	t.Parallel()
	for _, killed := range []string{"keeper", "keeper worker", "worker keeper"} {
		t.Run(killed, func(t *testing.T) {
			t.Parallel()
			testDurable(t, killed)
		})
	}
}

func testDurable(t *testing.T, killed string) {
	h := newDurableHome(t)
	s := h.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := dialKept(t, s.url)
	ref, err := tethertest.DialRef(ctx, s.url, tethertest.RefOptions{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()

	start := func(cmd client.Command) *client.Process {
		t.Helper()
		p, err := c.Start(ctx, cmd)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	ended := start(client.Command{ID: "ended", Argv: []string{"sh", "-c", "echo out; exit 3"}})
	if exit, err := ended.Wait(ctx); err != nil || exit.Code != 3 {
		t.Fatal(exit, err)
	}
	pids := filepath.Join(t.TempDir(), "pids")
	start(client.Command{ID: "silent", Argv: []string{"sh", "-c", "trap '' HUP TERM; setsid sh -c 'echo $$ >>" + pids + "; exec sleep 1000' & echo $$ >>" + pids + "; wait"}})
	pipe := follow(ctx, start(client.Command{ID: "pipe", Argv: counting}))
	terminal := follow(ctx, start(client.Command{ID: "terminal", Argv: counting, TTY: true}))
	var raw bytes.Buffer
	p, err := ref.Start(ctx, tethertest.RefStart{ID: "raw", Argv: counting, OnOutput: func(_ uint64, _ string, data []byte) { raw.Write(data) }})
	if err != nil {
		t.Fatal(err)
	}
	tethertest.Eventually(t, func() error {
		if text, _ := os.ReadFile(pids); bytes.Count(text, []byte("\n")) < 2 || p.Received() < 1000 {
			return errors.New("the commands have not begun yet")
		}
		return havePrinted(ctx, c, "pipe", "terminal")
	})
	if strings.HasPrefix(killed, "worker") {
		s.killWorker(t) // the next one has adopted the commands
	}
	s.crash(t, killed)

	s = h.start(t)
	for name, f := range map[string]*followed{"pipe": pipe, "terminal": terminal} {
		<-f.done
		if f.err != nil || f.exit.Code != -1 || !strings.Contains(f.exit.Failure, "server was killed") {
			t.Errorf("%s: %+v, %v", name, f.exit, f.err)
		}
		checkPrefix(t, name, f.out.String())
	}
	if result, err := p.Wait(ctx); err != nil || result.ExitCode != -1 {
		t.Errorf("reference client: %+v, %v", result, err)
	}
	checkPrefix(t, "reference client", raw.String())
	text, _ := os.ReadFile(pids)
	for _, field := range strings.Fields(string(text)) {
		if stat, err := os.ReadFile("/proc/" + field + "/stat"); err == nil && !bytes.Contains(stat, []byte(") Z ")) {
			t.Errorf("process %s of a command is still there: %s", field, stat)
		}
	}
	tethertest.Eventually(t, func() error { return checkDurableList(c) })
	s.stop(t)
	h.checkEmpty(t)
}

// havePrinted returns nil if commands have printed something.
func havePrinted(ctx context.Context, c *client.Client, ids ...string) error {
	list, err := c.ListProcesses(ctx, "")
	for _, p := range list.Processes {
		if slices.Contains(ids, p.ProcessID) && p.NextSeq < 2 {
			err = errors.Join(err, fmt.Errorf("%s has printed nothing", p.ProcessID))
		}
	}
	return err
}

// checkDurableList checks that a server knows what has become of commands.
func checkDurableList(c *client.Client) error {
	list, err := c.ListProcesses(context.Background(), "")
	if err != nil {
		return err
	}
	codes := map[string]int{}
	for _, p := range list.Processes {
		if p.State == wire.StateClosed && p.ExitCode != nil {
			codes[p.ProcessID] = *p.ExitCode
		}
	}
	if codes["ended"] != 3 || codes["silent"] != -1 {
		return fmt.Errorf("exit codes: %v", codes)
	}
	return nil
}

// checkEmpty checks that a server that has ended in order has left nothing.
func (h *durableHome) checkEmpty(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(h.dir, "durable")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of the server: %v", err)
	}
}

// Output in the spool, which no process has open any more, is read from its first byte, also after several servers have died. A start
// that is repeated gets the first outcome.
func TestDurableSpool(t *testing.T) {
	t.Parallel()
	h := newDurableHome(t)
	s := h.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := dialKept(t, s.url)
	const size = 8 << 20
	runs := filepath.Join(t.TempDir(), "runs")
	cmd := client.Command{ID: "big", Argv: []string{"sh", "-c", "echo x >>" + runs + "; yes 0123456789abcde | head -c " + strconv.Itoa(size) + "; exit 7"}}
	p, err := c.Start(ctx, cmd)
	if err != nil {
		t.Fatal(err)
	}
	tethertest.Eventually(t, func() error {
		list, err := c.ListProcesses(ctx, "")
		if err == nil && (len(list.Processes) != 1 || list.Processes[0].State != wire.StateClosed || list.Processes[0].SpooledBytes == 0) {
			err = fmt.Errorf("%+v", list.Processes)
		}
		return err
	})
	for _, killed := range []string{"keeper worker", "worker keeper", "keeper"} {
		s.crash(t, killed)
		s = h.start(t)
	}
	var out bytes.Buffer
	if exit, err := p.CopyOutput(ctx, &out, &out); err != nil || exit.Code != 7 || exit.Failure != "" {
		t.Errorf("%+v, %v", exit, err)
	}
	if want := bytes.Repeat([]byte("0123456789abcde\n"), size/16); !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%d bytes of output, or other ones", out.Len())
	}
	if text, err := os.ReadFile(runs); err != nil || string(text) != "x\n" {
		t.Errorf("the command has run %d times, %v", len(text)/2, err)
	}
	s.killWorker(t) // which has no descriptors of the first server's commands
	if err := c.End(ctx); err != nil {
		t.Error(err)
	}
	tethertest.Eventually(t, func() error {
		if left, _ := filepath.Glob(filepath.Join(h.dir, "durable", "spool-*")); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}
		return nil
	})
	s.stop(t)
	h.checkEmpty(t)
}

// A state directory has room for one durable server, which needs a keeper and a listener.
func TestDurableRefusals(t *testing.T) {
	t.Parallel()
	h := newDurableHome(t)
	for want, flags := range map[string][]string{
		"leave out `--no-keeper`": {"--no-keeper"},
		"not stdio":               {"--listen", "stdio"},
	} {
		if got := h.refused(t, flags...); !strings.Contains(got, want) {
			t.Errorf("%v: %s", flags, got)
		}
	}
	s := h.start(t)
	if got := h.refused(t, "--listen", "ws://127.0.0.1:0"); !strings.Contains(got, "another durable server uses the state directory "+h.dir+"; give this one another directory with `--state-dir`") {
		t.Errorf("a second server: %s", got)
	}
	s.stop(t)
}

// What a newer version has left is not touched. What cannot be read is removed, and the server begins anew.
func TestDurableStateOfAnotherKind(t *testing.T) {
	t.Parallel()
	h := newDurableHome(t)
	s := h.start(t)
	c := dialKept(t, s.url)
	if _, err := c.Start(t.Context(), client.Command{ID: "p", Argv: []string{"sleep", "1000"}}); err != nil {
		t.Fatal(err)
	}
	s.crash(t, "keeper worker")
	name := h.memory()
	change := func(at int64, b ...byte) {
		t.Helper()
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
	}
	change(8, 200) // the version
	if got := h.refused(t, "--listen", "ws://127.0.0.1:0"); !strings.Contains(got, "newer version") {
		t.Errorf("a newer version: %s", got)
	}
	if _, err := os.Stat(name); err != nil {
		t.Errorf("the state of a newer version: %v", err)
	}
	change(0, 'x')
	s = h.start(t)
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the damaged file: %v", err)
	}
	if _, err := dialKept(t, s.url).Start(t.Context(), client.Command{ID: "p", Argv: []string{"true"}}); err != nil {
		t.Error(err)
	}
	s.stop(t)
	h.checkEmpty(t)
}

// If the directory of a server that was killed is removed, the next durable server of the user removes its memory. That of a server
// that may come back, or runs, stays.
func TestDurableMemoryWithoutDirectory(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 3 {
		h := newDurableHome(t)
		s := h.start(t)
		names = append(names, h.memory())
		switch i {
		case 0:
			s.crash(t, "keeper worker")
			if err := os.RemoveAll(filepath.Join(h.dir, "durable")); err != nil {
				t.Fatal(err)
			}
		case 1:
			s.crash(t, "keeper worker")
		}
	}
	h := newDurableHome(t)
	h.start(t).stop(t)
	for i, name := range names {
		if _, err := os.Stat(name); (err == nil) != (i > 0) {
			t.Errorf("server %d: %v", i, err)
		}
	}
}

// An upload that was not complete ends with the keeper, and its temporary file is removed. A session of which the worker of the next
// server dies is set aside, and the others go on.
func TestDurableUploadAndPoison(t *testing.T) {
	t.Parallel()
	h := newDurableHome(t)
	s := h.start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	poisoned, healthy := dialKept(t, s.url), dialKept(t, s.url)
	poison, _ := startSleep(t, poisoned, "poison")
	p, err := healthy.Start(ctx, client.Command{ID: "p", Argv: []string{"sh", "-c", "echo out; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	followed := follow(ctx, p)
	c := tethertest.Dial(t, s.url)
	session := c.Handshake("").SessionID
	dir := t.TempDir()
	c.Must(wire.MethodUploadOpen, map[string]any{"uploadId": "u", "path": "file://" + dir + "/file", "size": 10}, nil)
	c.Must(wire.MethodUploadWrite, map[string]any{"uploadId": "u", "offset": 0, "chunk": []byte("12345")}, nil)
	c.Must(wire.MethodUploadOpen, map[string]any{"uploadId": "done", "path": "file://" + dir + "/done", "size": 0}, nil)
	sum := sha256.Sum256(nil)
	commit := map[string]any{"uploadId": "done", "sha256": hex.EncodeToString(sum[:])}
	c.Must(wire.MethodUploadCommit, commit, nil)
	tethertest.Eventually(t, func() error { return havePrinted(ctx, healthy, "p") })
	s.crash(t, "keeper worker")
	h.env = []string{crash.Variable + "=session.restoring@poison,kill"}
	s = h.start(t)
	if exit, err := poison.Wait(ctx); !errors.Is(err, client.ErrSessionLost) || !strings.Contains(err.Error(), "was set aside") {
		t.Errorf("the client of the session is told %+v, %v", exit, err)
	}
	if <-followed.done; followed.err != nil || followed.exit.Code != -1 || followed.out.String() != "out\n" {
		t.Errorf("%+v, %v, %q", followed.exit, followed.err, followed.out.String())
	}
	c = tethertest.Dial(t, s.url)
	c.Handshake(session)
	if m := c.Call(wire.MethodUploadStatus, map[string]any{"uploadId": "u"}); m.Error == nil {
		t.Error("an upload without descriptors is there again")
	}
	c.Must(wire.MethodUploadCommit, commit, nil) // it is recognised
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 || list[0].Name() != "done" {
		t.Errorf("in the directory: %v, %v", list, err)
	}
	s.stop(t)
	h.checkEmpty(t)
}

// Servers are killed at random moments, in any order of their processes, while commands start and print. Each command runs once at most, its
// client gets all output up to the end without a gap, and the end.
func TestDurableStorm(t *testing.T) {
	t.Parallel()
	h := newDurableHome(t)
	ctx, cancel := context.WithTimeout(t.Context(), tethertest.Scaled(time.Minute, 10*time.Minute))
	defer cancel()
	dir := t.TempDir()
	s := h.start(t)
	c, err := client.Dial(ctx, s.url, client.Options{Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	kinds := []string{"keeper", "keeper worker", "worker keeper", "worker"}
	for round := range tethertest.Scaled(4, 100) {
		var starts sync.WaitGroup
		for i := range 4 {
			starts.Go(func() {
				name := filepath.Join(dir, fmt.Sprintf("%d-%d", round, i))
				script := "echo once >>" + name + "; " + counting[2]
				p, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", script}, TTY: i == 3})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				f := follow(ctx, p)
				if <-f.done; f.err != nil || f.exit.Code != -1 || f.exit.Failure == "" {
					t.Errorf("%s: %+v, %v", name, f.exit, f.err)
				}
				if text, _ := os.ReadFile(name); len(text) > len("once\n") {
					t.Errorf("%s has run %d times", name, bytes.Count(text, []byte("\n")))
				}
				if f.out.Len() > 0 {
					checkPrefix(t, name, f.out.String())
				}
			})
		}
		time.Sleep(rand.N(30 * time.Millisecond)) // any moment
		for kind := kinds[rand.IntN(len(kinds))]; ; kind = kinds[rand.IntN(3)] {
			if kind != "worker" {
				s.crash(t, kind)
				break
			}
			s.killWorker(t)
		}
		s = h.start(t)
		done := make(chan struct{})
		go func() { starts.Wait(); close(done) }() // ends with the commands
		for waiting := true; waiting; {            // a command that was started again by its client runs until the next death
			select {
			case <-done:
				waiting = false
			case <-time.After(300 * time.Millisecond):
				s.crash(t, kinds[rand.IntN(3)])
				s = h.start(t)
			}
		}
	}
	s.stop(t)
	h.checkEmpty(t)
}

// A sandbox ends with the keeper. Its command is told to have been lost, and not to have been killed, and what protected names is removed.
func TestDurableSandbox(t *testing.T) {
	t.Parallel()
	h := newDurableHome(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := h.start(t)
	c := dialKept(t, s.url)
	dir := t.TempDir()
	for _, killed := range []string{"keeper", "keeper worker"} {
		p, err := c.Start(ctx, client.Command{ID: killed, Argv: counting, Dir: dir, Sandbox: workspaceWrite(t, dir), OneStream: true})
		if err != nil && strings.Contains(err.Error(), "sandbox") {
			need.CannotRun(t, "there is no sandbox on this machine: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		f := follow(ctx, p)
		tethertest.Eventually(t, func() error { return havePrinted(ctx, c, killed) })
		s.crash(t, killed)
		s = h.start(t)
		if <-f.done; f.err != nil || f.exit.Code != -1 || f.exit.Failure == "" || f.exit.SandboxDenied {
			t.Errorf("%s: %+v, %v", killed, f.exit, f.err)
		}
		checkPrefix(t, killed, f.out.String())
	}
	tethertest.Eventually(t, func() error {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the placeholder is still there: %v", err)
		}
		return nil
	})
	s.stop(t)
}
