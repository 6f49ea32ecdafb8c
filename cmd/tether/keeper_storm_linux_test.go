package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A storm is a server whose workers die all the time while clients use it.
type storm struct {
	*keptServer
	cable  *cable.Cable
	dir    string
	marker string // in the environment of all commands
	plan   string // a file that says where the next worker dies

	sandbox *wire.Sandbox // nil: there is none on this machine

	steps    atomic.Int64  // how often a client got something done
	enough   chan struct{} // closed when enough workers have died
	commands atomic.Int64
	cuts     int
	renewals int
}

const (
	// stuckTime is how long all clients together may make no step. On an idle machine they make thousands per second.
	stuckTime = time.Minute
	// stormLimit is for the whole storm.
	stormLimit = 10 * time.Minute
)

// Workers are killed at random moments, or die behind a lasting effect, keepers replace themselves, and connections are cut,
// while clients run commands: each command runs once, with all of its output and input, and its exit code. In the end nothing is
// left. Faults follow the steps of the clients and not the clock, so that a busy machine takes longer and is no reason to fail.
func TestKeeperStorm(t *testing.T) {
	t.Parallel()
	s := &storm{dir: t.TempDir(), enough: make(chan struct{})}
	s.plan = filepath.Join(s.dir, "plan")
	s.planDeath(t, "")
	s.keptServer = startKeeper(t, []string{crash.Variable + "=@" + s.plan, hastyVariable + "=" + hastyRenew})
	s.cable = tethertest.LayCable(t, s.url)
	s.marker = "TETHER_STORM=" + s.dir
	s.useSandbox(t)
	s.awaitWorker(t, 0)

	ctx, cancel := context.WithTimeout(t.Context(), tethertest.Scaled(stormLimit, 10*stormLimit))
	defer cancel()
	var working, disturbing sync.WaitGroup
	disturbing.Go(func() {
		defer close(s.enough)
		s.disturb(ctx, t, tethertest.Scaled(12, 2000))
		s.planDeath(t, "") // the worker that ends the server is the last one
	})
	for n := range tethertest.Scaled(4, 20) {
		working.Go(func() { s.work(ctx, t, n) })
	}
	disturbing.Wait()
	working.Wait()
	s.checkEmpty(t)
	groups := s.cgroups()
	s.stop(t)
	for _, pattern := range groups {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("cgroups are left: %v", left)
		}
	}
	s.report(t)
}

// useSandbox finds out whether this machine has sandboxes.
func (s *storm) useSandbox(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Log("no sandboxed commands: ", err)
		return
	}
	s.sandbox = workspaceWrite(t, s.dir)
}

// planDeath says where the next worker dies, see package crash. Those after it do not, until the next call.
func (s *storm) planDeath(t *testing.T, text string) {
	err := os.WriteFile(s.plan+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(s.plan+".new", s.plan)
	}
	if err != nil {
		t.Error(err)
	}
}

// disturb causes faults until a number of workers was killed.
func (s *storm) disturb(ctx context.Context, t *testing.T, kills int) {
	ways := []string{"kill", "panic", "segv"}
	points := slices.DeleteFunc(crash.Names(), func(name string) bool { return name == "keep.bye" }) // that ends the server
	keeper := s.image()
	for killed := 0; killed < kills && s.awaitSteps(ctx, t, 1+rand.IntN(30), never); {
		if image := s.image(); image != keeper {
			keeper = image
			s.renewals++
		}
		plan, again := "", 0
		way := ways[rand.IntN(len(ways))]
		switch rand.IntN(6) {
		case 0:
			s.cut()
			continue
		case 1, 2:
			again = rand.IntN(3) // while the next one takes over, or soon after
		case 3:
			plan = "~1000," + way
		default:
			plan = fmt.Sprintf("%s:%d,%s", points[rand.IntN(len(points))], 1+rand.IntN(3), way)
		}
		s.planDeath(t, plan)
		for range 1 + again {
			if pid := s.worker(); pid != 0 {
				syscall.Kill(pid, []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV}[rand.IntN(2)])
				killed++
			}
			time.Sleep(rand.N(40 * time.Millisecond))
		}
		if last := s.worker(); plan != "" && last != 0 { // not all effects are ones that this worker has
			s.awaitSteps(ctx, t, 200, func() bool { return s.worker() != last })
		}
	}
}

func never() bool { return false }

// cut breaks all connections, in one of several ways.
func (s *storm) cut() {
	s.cuts++
	switch rand.IntN(3) {
	case 0:
		s.cable.Sever()
	case 1:
		s.cable.Reset()
	default:
		s.cable.CutFor(10 * time.Millisecond)
	}
}

// awaitSteps waits until the clients have made so many more steps, or until something has happened. If they make none, it lets the worker
// say where it is.
func (s *storm) awaitSteps(ctx context.Context, t *testing.T, more int, happened func() bool) bool {
	const look = time.Millisecond
	last, since := s.steps.Load(), time.Now()
	for target := last + int64(more); last < target && !happened(); {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			t.Error("the storm takes too long")
			return false
		}
		switch now := s.steps.Load(); {
		case now != last:
			last, since = now, time.Now()
		case t.Failed():
			return false
		case time.Since(since) > stuckTime:
			t.Errorf("the clients have done nothing for %v", stuckTime)
			if pid := s.worker(); pid != 0 {
				syscall.Kill(pid, syscall.SIGQUIT)
			}
			return false
		}
	}
	return true
}

// image changes when the keeper replaces itself: it has the random addresses of the program's memory.
func (s *storm) image() string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", s.Process.Pid))
	return string(text)
}

// work runs commands in a session until enough workers have died, and each kind of command at least once.
func (s *storm) work(ctx context.Context, t *testing.T, number int) {
	c, err := client.Dial(ctx, s.cable.URL(), client.Options{Wait: stormLimit, TTL: time.Hour})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	for i := 0; (i < len(tasks) || !s.isOver()) && !t.Failed(); i++ {
		name := fmt.Sprintf("%d-%d", number, i)
		kind := tasks[(number+i)%len(tasks)]
		if err := s.run(ctx, c, name, kind.task); err != nil {
			t.Errorf("command %s, %s: %v", name, kind.name, err)
		}
		s.commands.Add(1)
	}
	if err := c.End(ctx); err != nil {
		t.Error(err)
	}
	s.steps.Add(1)
}

func (s *storm) isOver() bool {
	select {
	case <-s.enough:
		return true
	default:
		return false
	}
}

// checkEmpty checks that no process, descriptor, slot or file of a command is left.
func (s *storm) checkEmpty(t *testing.T) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range environs {
			if text, _ := os.ReadFile(name); bytes.Contains(text, []byte(s.marker)) {
				return fmt.Errorf("a command is left: %s", name)
			}
		}
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.Process.Pid))
		if worker := strconv.Itoa(s.worker()); err != nil || strings.TrimSpace(string(children)) != worker {
			return fmt.Errorf("children of the keeper: %s, the worker is %s, %w", children, worker, err)
		}
		held, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Process.Pid))
		if err != nil || len(held) > heldIdle {
			return fmt.Errorf("the keeper holds %d descriptors, %w", len(held), err)
		}
		for _, name := range s.stateFiles() {
			if !slices.Contains(serverFiles, filepath.Base(name)) {
				return fmt.Errorf("left in the state directory: %v", name)
			}
		}
		return s.checkSlots(held)
	})
}

// serverFiles are what a server has in its state directory without any session.
var serverFiles = []string{"lock", "notice", "uploads", "commands", "empty", "hidden"}

// heldIdle is how many descriptors a keeper has for itself, its worker and the server as a whole.
const heldIdle = 20

// checkSlots checks that no slot of the arena is in use, as the next worker would find it.
func (s *storm) checkSlots(held []os.DirEntry) error {
	for _, entry := range held {
		name := fmt.Sprintf("/proc/%d/fd/%s", s.Process.Pid, entry.Name())
		if target, _ := os.Readlink(name); !strings.HasPrefix(target, "/memfd:tether") {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		a, err := arena.Inspect(f)
		if err != nil {
			f.Close()
			return err
		}
		defer a.Close()
		if slots := a.Slots(); len(slots) > 0 {
			return fmt.Errorf("%d slots are in use", len(slots))
		}
		return nil
	}
	return fmt.Errorf("the keeper has no arena")
}

// cgroups returns patterns for the names of the control groups of the server.
func (s *storm) cgroups() (patterns []string) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.Process.Pid))
	_, path, _ := strings.Cut("\n"+string(text), "\n0::")
	path, _, _ = strings.Cut(path, "\n")
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		patterns = append(patterns, filepath.Join(mount, path, fmt.Sprintf("tether-%d-*", s.Process.Pid)))
	}
	return patterns
}

// stateFiles lists what is in the state directory of the server.
func (s *storm) stateFiles() (names []string) {
	for _, entry := range s.Env {
		if dir, ok := strings.CutPrefix(entry, "XDG_STATE_HOME="); ok {
			names, _ = filepath.Glob(filepath.Join(dir, "tether", "server-*", "*"))
		}
	}
	return names
}

// report logs what has happened, and checks that it was a storm.
func (s *storm) report(t *testing.T) {
	deaths, points := 0, map[string]int{}
	for line := range strings.Lines(s.stderr.String()) {
		if strings.Contains(line, "the worker has ended") {
			deaths++
		}
		if name, ok := strings.CutPrefix(line, "crash point "); ok {
			points[strings.TrimSpace(name)]++
		}
		if strings.Contains(line, "the keeper could not be replaced") {
			t.Error(line)
		}
	}
	t.Logf("%d commands, %d deaths of workers, %d cuts, at least %d replacements of the keeper", s.commands.Load(), deaths, s.cuts, s.renewals)
	if deaths < 10 || s.renewals == 0 {
		t.Error("there was no storm")
	}
	for _, name := range slices.Sorted(maps.Keys(points)) {
		t.Logf("%4d workers have died at %s", points[name], name)
	}
}
