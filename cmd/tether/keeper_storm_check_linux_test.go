package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A stormLog is the log of the server of a storm. It is read while it is written, and only its end is kept.
type stormLog struct {
	mu       sync.Mutex
	died     int            // workers
	points   map[string]int // deaths by crash point
	strange  []string       // lines that no fault of the storm explains
	line     []byte         // one that is not complete
	lastRead []byte
}

// logEnd is how much of the log is kept.
const logEnd = 256 << 10

// Write implements io.Writer.
func (l *stormLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; ; {
		line, after, complete := bytes.Cut(rest, []byte("\n"))
		l.line = append(l.line, line...)
		if !complete {
			break
		}
		l.read(string(l.line))
		l.line, rest = l.line[:0], after
	}
	if l.lastRead = append(l.lastRead, p...); len(l.lastRead) > 2*logEnd {
		l.lastRead = append([]byte(nil), l.lastRead[len(l.lastRead)-logEnd:]...)
	}
	return len(p), nil
}

// plannedEnds are how the workers of a storm end: by SIGKILL, by SIGSEGV before the Go runtime handles it, by the Go runtime after a
// panic or an invalid address, and for an upgrade.
var plannedEnds = []string{"exit status 137", "exit status 139", "exit status 2)", "an upgrade has replaced it"}

// read looks at a line.
func (l *stormLog) read(line string) {
	name, atPoint := strings.CutPrefix(line, "crash point ")
	has := func(text string) bool { return strings.Contains(line, text) }
	begins := func(text string) bool { return strings.HasPrefix(line, text) }
	switch {
	case atPoint:
		if l.points == nil {
			l.points = map[string]int{}
		}
		l.points[name]++
	case has("the worker has ended"):
		l.died++
	case has("the server goes on after its worker has ended") && !slices.ContainsFunc(plannedEnds, has),
		has("the keeper could not be replaced"), has("DATA RACE"),
		begins("panic: ") && !has("death at "),
		begins("fatal error: ") && !has("fault"):
		l.strange = append(l.strange, line)
	}
}

// deaths is how many workers have died.
func (l *stormLog) deaths() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.died
}

// end is the end of the log.
func (l *stormLog) end() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tail(bytes.Clone(l.lastRead))
}

// checkEmpty checks that no process, descriptor, slot or file of a command is left.
func (s *storm) checkEmpty(t *testing.T) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, name := range environs {
			if text, _ := os.ReadFile(name); bytes.Contains(text, []byte(s.tasks.Marker)) {
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
func (s *keptServer) stateFiles() (names []string) {
	for _, entry := range s.Env {
		if dir, ok := strings.CutPrefix(entry, "XDG_STATE_HOME="); ok {
			names, _ = filepath.Glob(filepath.Join(dir, "tether", "server-*", "*"))
		}
	}
	return names
}

// report logs what has happened, and checks that it was a storm without faults.
func (s *storm) report(t *testing.T) {
	l := &s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d commands in %d sessions, %d deaths of workers, %d cuts, %d upgrades, at least %d replacements of the keeper",
		s.commands.Load(), s.sessions.Load(), l.died, s.cuts, s.upgrades, s.renewals)
	if l.died < 10 || s.renewals == 0 {
		t.Error("there was no storm")
	}
	for _, name := range slices.Sorted(maps.Keys(l.points)) {
		t.Logf("%4d workers have died at %s", l.points[name], name)
	}
	wrong := append(s.faults(), l.strange...)
	for i, what := range wrong {
		if i == 5 {
			t.Errorf("and %d more faults", len(wrong)-i)
			break
		}
		t.Error(what)
	}
}
