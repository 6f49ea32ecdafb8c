package confined

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/wire"
)

func TestReuse(t *testing.T) {
	b := newFixture(t, nil)
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/one", []byte("1"), true))
	first := b.only()
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/two", []byte("2"), true))
	b.must(b.files("read :root, write $WS").WriteFile(t.Context(), b.ws+"/three", nil, true))
	if _, err := b.files(readOnly).Metadata(t.Context(), b.ws, true); err != nil {
		t.Error(err)
	}
	if b.exists(b.ws + "/.git") {
		t.Error("there is a placeholder while the helper is idle")
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if n := len(b.pool.helpers); n != 1 || b.pool.helpers[first.binding.key] != first {
		t.Errorf("there are %d helpers", n)
	}
}

// The directory on which the sandbox was built is replaced.
func TestReplacedRoot(t *testing.T) {
	b := newFixture(t, nil)
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/one", nil, true))
	first := b.only()
	b.must(os.Rename(b.ws, b.ws+".old"))
	b.must(os.Mkdir(b.ws, 0o755))
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/two", nil, true))
	if !b.exists(b.ws + "/two") {
		t.Error("it was written somewhere else")
	}
	b.gone(first)
	if b.only() == first {
		t.Error("the helper stayed")
	}
}

func TestNewProtectedName(t *testing.T) {
	b := newFixture(t, nil)
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/one", nil, true))
	first := b.only()
	b.must(os.MkdirAll(b.ws+"/.git/hooks", 0o755))
	if got := outcome(b.files(workspace).WriteFile(t.Context(), b.ws+"/.git/hooks/x", nil, true)); got != readonly {
		t.Errorf("it ended with %q", got)
	}
	b.gone(first)
	second := b.only()
	b.must(os.RemoveAll(b.ws + "/.git"))
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/two", nil, true))
	b.gone(second)
}

// A command has placeholders on the host while it runs. That changes nothing
// for a helper.
func TestHelperBesidePlaceholdersOfCommand(t *testing.T) {
	b := newFixture(t, nil)
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/one", nil, true))
	first := b.only()
	prepared, err := b.confiner.Prepare(t.Context(), confine.Request{
		Intent: b.intent(workspace), Spec: proc.Spec{Argv: []string{"cat"}, Dir: b.ws, Env: []string{"PATH=/usr/bin:/bin"}, PipeStdin: true},
	})
	b.must(err)
	command, err := prepared.Start(t.Context(), b.procs, new(proc.Capture))
	b.must(err)
	if !b.exists(b.ws + "/.git") {
		t.Fatal("the command holds nothing")
	}
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/two", nil, true))
	if got := outcome(b.files(workspace).CreateDirectory(t.Context(), b.ws+"/.git", true, true)); got != readonly {
		t.Errorf("making a held name: %q", got)
	}
	command.Kill()
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/three", nil, true))
	if b.only() != first {
		t.Error("the helper was replaced")
	}
}

func TestIdle(t *testing.T) {
	b := newFixture(t, func(c *Config) { c.IdleLimit = time.Millisecond })
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/one", nil, true))
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/two", nil, true))
	b.pool.tasks.Wait() // the helper ends by itself
	if len(b.pool.slots) > 0 || len(b.pool.helpers) > 0 {
		t.Error("something is left")
	}
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/three", nil, true))
}

// pid returns the pid of the process that serves requests.
func (b *fixture) pid(h *worker) int {
	b.Helper()
	pid := h.process.Pid()
	for {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		b.must(err)
		if strings.TrimSpace(string(children)) == "" {
			return pid
		}
		_, err = fmt.Sscan(string(children), &pid)
		b.must(err)
	}
}

func TestCrash(t *testing.T) {
	b := newFixture(t, nil)
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/one", nil, true))
	first := b.only()
	h, err := b.pool.use(t.Context(), b.files(workspace).(*policyFiles).binding)
	b.must(err)
	b.stop(b.pid(h))
	failed := make(chan error)
	go func() { failed <- b.files(workspace).WriteFile(t.Context(), b.ws+"/two", nil, true) }()
	b.waitPending(h)
	b.must(unix.Kill(b.pid(h), unix.SIGKILL))
	if got := outcome(<-failed); !strings.HasPrefix(got, "-32603 fs sandbox helper failed: it ended with status 137") {
		t.Errorf("it ended with %q", got)
	}
	b.pool.release(h)
	b.gone(first)
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/three", nil, true))
	if b.only() == first {
		t.Error("the dead helper is still used")
	}
}

// stop stops a process and returns when all its threads are stopped. The kernel gives the signal to one thread, and the
// others run until that one does.
func (b *fixture) stop(pid int) {
	b.Helper()
	b.must(unix.Kill(pid, unix.SIGSTOP))
	for deadline := time.Now().Add(hang.Limit); !stopped(pid); runtime.Gosched() {
		if time.Now().After(deadline) {
			b.Fatal("the helper runs on after SIGSTOP")
		}
	}
}

func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	return !slices.ContainsFunc(threads, func(file string) bool {
		stat, err := os.ReadFile(file)
		return err == nil && !bytes.Contains(stat, []byte(") T "))
	})
}

// waitPending waits until a request is in progress.
func (b *fixture) waitPending(h *worker) {
	b.Helper()
	for deadline := time.Now().Add(hang.Limit); ; {
		h.mu.Lock()
		n := len(h.pending)
		h.mu.Unlock()
		if n > 0 {
			return
		}
		if time.Now().After(deadline) {
			b.Fatal("no request has come")
		}
		runtime.Gosched()
	}
}

func TestCancel(t *testing.T) {
	b := newFixture(t, nil)
	b.must(b.files(denyOut).WriteFile(t.Context(), b.ws+"/one", nil, true))
	h := b.only()
	pid := b.pid(h)
	before := descriptors(t, os.Getpid())
	b.stop(pid)
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error)
	go func() {
		f, err := b.files(denyOut).Open(ctx, b.ws+"/one", true)
		f.Close()
		failed <- err
	}()
	b.waitPending(h)
	cause := errors.New("enough")
	cancel(cause)
	if err := <-failed; err != cause {
		t.Errorf("it ended with %v", err)
	}
	b.must(unix.Kill(pid, unix.SIGCONT))
	// The answer to the cancelled request comes, with its file, and the helper
	// continues.
	if text, err := b.read(b.files(denyOut), b.ws+"/a.txt", true); err != nil || text != "inside" {
		t.Errorf("afterwards: %q %v", text, err)
	}
	if b.only() != h {
		t.Error("the helper was replaced")
	}
	for range cap(h.slots) { // when all slots are free, no answer is missing
		h.slots <- struct{}{}
	}
	if after := descriptors(t, os.Getpid()); after != before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

func TestConcurrent(t *testing.T) {
	b := newFixture(t, nil)
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			name, want := fmt.Sprintf("%s/file%d", b.ws, i), fmt.Sprint(i)
			if err := b.files(denyOut).WriteFile(t.Context(), name, []byte(want), true); err != nil {
				t.Error(err)
			}
			if got, err := b.read(b.files(denyOut), name, true); err != nil || got != want {
				t.Errorf("%d: %q %v", i, got, err)
			}
			if _, err := b.files(denyOut).ReadDirectory(t.Context(), b.ws); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	h := b.only()
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if h.users != 0 || len(h.slots) != 0 || len(h.pending) != 0 {
		t.Errorf("left over: %d users, %d slots, %d pending", h.users, len(h.slots), len(h.pending))
	}
}

// There are more policies than helpers may run.
func TestManyPolicies(t *testing.T) {
	b := newFixture(t, nil)
	var group sync.WaitGroup
	for i := range 3 * maxHelpers {
		b.must(os.Mkdir(fmt.Sprintf("%s/%d", b.out, i), 0o755))
		group.Go(func() {
			dir := fmt.Sprintf("%s/%d", b.out, i)
			if err := b.files("read :root, write "+dir).WriteFile(t.Context(), dir+"/x", nil, true); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if n := len(b.pool.helpers); n > maxHelpers || b.pool.waiting != 0 {
		t.Errorf("%d helpers, %d waiting", n, b.pool.waiting)
	}
}

func TestLargeData(t *testing.T) {
	b := newFixture(t, nil)
	data := bytes.Repeat([]byte("0123456789abcdef"), 8<<20/16)
	b.must(b.files(denyOut).WriteFile(t.Context(), b.ws+"/big", data, true))
	f, err := b.files(denyOut).Open(t.Context(), b.ws+"/big", true)
	b.must(err)
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// An answer that fits into no message.
	for i := range 5000 {
		b.write(fmt.Sprintf("%s/sub/a name that is not short %d", b.ws, i), "")
	}
	entries, err := b.files(denyOut).ReadDirectory(t.Context(), b.ws+"/sub")
	if err != nil || len(entries) != 5000 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
	walk, err := b.files(denyOut).Walk(t.Context(), b.ws, wire.WalkOptions{MaxDepth: 9, MaxDirectories: 99, MaxEntries: 9999})
	if err != nil || len(walk.Entries) < 5000 {
		t.Errorf("%d entries, %v", len(walk.Entries), err)
	}
	// Names are bytes.
	b.must(b.files(denyOut).WriteFile(t.Context(), b.ws+"/\xff\xfe", nil, true))
	if !b.exists(b.ws + "/\xff\xfe") {
		t.Error("the name has changed on its way")
	}
}

func TestClosed(t *testing.T) {
	b := newFixture(t, nil)
	files := b.files(workspace)
	b.must(files.WriteFile(t.Context(), b.ws+"/one", nil, true))
	h := b.only()
	b.pool.Close()
	b.gone(h)
	b.pool.Close()
	if got := outcome(files.WriteFile(t.Context(), b.ws+"/two", nil, true)); !strings.Contains(got, ErrClosed.Error()) {
		t.Errorf("it ended with %q", got)
	}
}

// Close while a helper starts, and while a request is in progress.
func TestCloseBusy(t *testing.T) {
	b := newFixture(t, nil)
	b.must(b.files(workspace).WriteFile(t.Context(), b.ws+"/one", nil, true))
	h := b.only()
	b.stop(b.pid(h))
	failed := make(chan error, 2)
	go func() { failed <- b.files(workspace).WriteFile(t.Context(), b.ws+"/two", nil, true) }()
	b.waitPending(h)
	go func() { failed <- b.files(minimalRW).WriteFile(t.Context(), b.ws+"/three", nil, true) }()
	b.pool.Close()
	if outcome(<-failed); len(b.pool.slots) != 0 {
		t.Error("a helper is left")
	}
	<-failed
}

// All descriptors are closed again.
func TestDescriptors(t *testing.T) {
	b := newFixture(t, nil)
	use := func() {
		for _, policy := range []string{denyOut, workspace, minimalRW} {
			for range 20 {
				if _, err := b.read(b.files(policy), b.ws+"/a.txt", true); err != nil {
					t.Fatal(err)
				}
				b.read(b.files(policy), b.ws+"/filelink", true)
				b.must(b.files(policy).WriteFile(t.Context(), b.ws+"/x", make([]byte, 100<<10), true))
				f, err := b.files(policy).Replace(t.Context(), b.ws+"/y")
				b.must(err)
				f.Close()
			}
		}
	}
	use()
	before, inside := descriptors(t, os.Getpid()), map[*worker]int{}
	for _, h := range b.pool.helpers {
		inside[h] = descriptors(t, b.pid(h))
	}
	use()
	if after := descriptors(t, os.Getpid()); after != before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
	for h, before := range inside {
		// The helper closes a file after it was sent.
		for deadline := time.Now().Add(hang.Limit); descriptors(t, b.pid(h)) > before; {
			if time.Now().After(deadline) {
				t.Fatalf("%d descriptors inside, before %d", descriptors(t, b.pid(h)), before)
			}
		}
	}
}

func descriptors(t *testing.T, pid int) int {
	t.Helper()
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// A helper has only its socket, its policy and a small environment.
func TestHelperEnvironment(t *testing.T) {
	shared.once.Do(share) // the shared state outlives this test's directory
	t.Setenv("TMPDIR", t.TempDir())
	b := newFixture(t, nil)
	env, err := b.read(b.files(minimalRead), "/proc/self/environ", true)
	if err != nil || strings.Contains(env, "HOME=") || !strings.Contains(env, "TMPDIR="+os.Getenv("TMPDIR")) {
		t.Errorf("environment %q, %v", env, err)
	}
	net, err := b.read(b.files(minimalRead), "/proc/self/net/dev", true)
	if err != nil || strings.Count(net, ":") > 1 {
		t.Errorf("network %q, %v", net, err)
	}
}
