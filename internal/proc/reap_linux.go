package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// reapInterval is the least time between two searches for dead orphans.
const reapInterval = time.Second

// A reaper adopts the orphans of all processes and reaps them when they have ended.
// Each is reaped by its pid: waiting for "any child" would take away exits that
// other parts of this program wait for. A zombie that the supervisor did not start
// and that is still a zombie at the next search is an orphan that no other code
// waits for.
type reaper struct {
	log    *slog.Logger
	own    *pidSet
	before map[int]processEntry // children from before this program was executed
	quit   chan struct{}
	done   sync.WaitGroup
}

func startReaper(log *slog.Logger, own *pidSet) (*reaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become subreaper: %w", err)
	}
	r := &reaper{log: log, own: own, quit: make(chan struct{})}
	if hasChildren() {
		r.before = childrenIn(readProcessTable())
	}
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	r.done.Go(func() { // ends with close
		defer signal.Stop(died)
		r.run(died)
	})
	return r, nil
}

func (r *reaper) close() {
	close(r.quit)
	r.done.Wait()
	r.killOrphans()
	r.reap(r.zombies()) // zombies of the last kills
}

// hasChildren reports whether this program has children. If the kernel does not list them, it
// reports true. This spares most programs a search of all processes of the machine.
func hasChildren() bool {
	children, listed := listedChildren()
	return len(children) > 0 || !listed
}

// listedChildren returns the pids of this program's children from the kernel's lists, one per
// thread, and whether the kernel has such lists and they could be read.
func listedChildren() (pids []int, listed bool) {
	threads, _ := os.ReadDir("/proc/self/task")
	readable := true
	for _, thread := range threads {
		list, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		switch {
		case err == nil:
			listed = true
		case !errors.Is(err, fs.ErrNotExist): // it does not exist if there are no such lists, or if the thread has ended
			readable = false
		}
		for field := range bytes.FieldsSeq(list) {
			if pid, err := strconv.Atoi(string(field)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids, listed && readable
}

// childrenIn returns the children of this program.
func childrenIn(table processTable) map[int]processEntry {
	children := make(map[int]processEntry)
	for pid, entry := range table {
		if entry.parent == os.Getpid() {
			children[pid] = entry
		}
	}
	return children
}

// killOrphans kills adopted processes that no other search found, with their descendants. It
// spares children that this program had before, and children in its own session: commands and
// everything that they start are in other sessions.
func (r *reaper) killOrphans() {
	self, ok := readProcess(os.Getpid())
	if !ok || !hasChildren() {
		return
	}
	killed := killInRounds(func() map[int]processEntry {
		table := readProcessTable()
		found := childrenIn(table)
		for pid, entry := range found {
			if entry.session == self.session || r.before[pid].started == entry.started {
				delete(found, pid)
			}
		}
		addDescendants(table, found)
		return found
	})
	if killed > 0 {
		r.log.Info("killed orphans of commands", "processes", killed)
	}
}

func (r *reaper) run(died <-chan os.Signal) {
	timer := time.NewTimer(0)
	<-timer.C
	defer timer.Stop()
	var suspects map[int]bool
	pending := false
	for {
		select {
		case <-r.quit:
			return
		case <-died:
			if !pending {
				pending = true
				timer.Reset(reapInterval)
			}
		case <-timer.C:
			suspects = r.look(suspects)
			if pending = len(suspects) > 0; pending {
				timer.Reset(reapInterval)
			}
		}
	}
}

// look reaps the zombies that the last search found, and returns the others.
func (r *reaper) look(before map[int]bool) map[int]bool {
	now := r.zombies()
	stale := make(map[int]bool)
	for pid := range now {
		if before[pid] {
			stale[pid] = true
			delete(now, pid)
		}
	}
	r.reap(stale)
	return now
}

func (r *reaper) reap(pids map[int]bool) {
	for pid := range pids {
		if reaped, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err == nil && reaped == pid {
			r.log.Debug("reaped an orphan", "pid", pid)
		}
	}
}

// zombies returns the dead children of this program that the supervisor did not
// start.
func (r *reaper) zombies() map[int]bool {
	dead := make(map[int]bool)
	children, _ := listedChildren()
	for _, pid := range children {
		if r.own.has(pid) {
			continue
		}
		if _, ended := exitCode(unix.P_PID, pid, unix.WNOHANG, nil); ended {
			dead[pid] = true
		}
	}
	return dead
}
