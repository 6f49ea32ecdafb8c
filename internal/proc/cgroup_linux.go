package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/mountinfo"
)

const (
	cgroupPrefix = "tether-"
	// cgroupsKept is how many empty cgroups are kept for the next processes: making
	// and removing one costs a tenth of a fork.
	cgroupsKept = 64
	// cgroupKills is how many kills may be in the kernel at once. The kernel serves
	// one at a time, and each that waits holds a thread.
	cgroupKills = 4
	// cgroupAwaits is how many cgroups may be watched at once until they are empty.
	// Each takes a descriptor.
	cgroupAwaits = 32
)

// cgroups keeps a cgroup for each process below one of this program's own,
// "tether-PID-N". No controller is needed: the cgroups are used to find and kill a
// process with its descendants. The parent directory is locked while this program
// runs, so that other programs can tell it from one whose owner has died.
type cgroups struct {
	broken atomic.Bool // the kernel does not start processes in them
	proven atomic.Bool // it does
	kills  chan struct{}
	awaits chan struct{}

	mu     sync.Mutex
	parent string
	lock   int
	next   int
	free   []freeCgroup // for reuse
}

// A freeCgroup is empty. Its CPU counter continues.
type freeCgroup struct {
	path   string
	number int         // its name
	used   account.CPU // CPU time of the processes that were in it before
}

// supervisors numbers the supervisors of this program.
var supervisors atomic.Int64

// openCgroups makes the parent cgroup, or says why that is not possible.
//
// With a keeper the parent is the same for all programs of this keeper, and the keeper holds its lock.
func openCgroups(keeper Keeper) (*cgroups, error) {
	own, err := ownCgroup()
	if err != nil {
		return nil, err
	}
	sweepCgroups(own)
	c := &cgroups{lock: -1, kills: make(chan struct{}, cgroupKills), awaits: make(chan struct{}, cgroupAwaits)}
	name := fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), supervisors.Add(1))
	if keeper != nil {
		name = fmt.Sprintf("%s%d-0", cgroupPrefix, keeper.Pid())
	}
	c.parent = filepath.Join(own, name)
	if err := c.makeParent(); err != nil {
		return nil, err
	}
	if keeper == nil {
		return c, nil
	}
	if err := keeper.Hold(0, Held{heldCgroups, c.lock}); err != nil {
		unix.Close(c.lock)
		return nil, err
	}
	c.findNext()
	return c, nil
}

// makeParent makes the parent cgroup and locks it. It retries if the sweep of
// another program comes between the two.
func (c *cgroups) makeParent() error {
	for deadline := time.Now().Add(killWait); ; time.Sleep(time.Millisecond) {
		if err := os.Mkdir(c.parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		fd, err := lockCgroup(c.parent, filelock.Shared)
		if err == nil {
			if c.lock >= 0 {
				unix.Close(c.lock)
			}
			c.lock = fd
			return nil
		}
		if !errors.Is(err, errSwept) || time.Now().After(deadline) {
			os.Remove(c.parent)
			return fmt.Errorf("lock %s: %w", c.parent, err)
		}
	}
}

// errSwept means that a cgroup is being removed, or was.
var errSwept = errors.New("another program is removing the cgroup")

// lockCgroup opens and locks a cgroup, and checks that it still exists then: a lock on
// a cgroup that was removed meanwhile does not protect a new one with the same name.
func lockCgroup(dir string, mode filelock.Mode) (fd int, err error) {
	fd, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return -1, errSwept
	}
	if err != nil {
		return -1, err
	}
	var locked, there unix.Stat_t
	if err = filelock.Try(fd, mode); err == filelock.ErrHeld {
		err = errSwept
	}
	if err == nil {
		err = unix.Fstat(fd, &locked)
	}
	if err == nil && (unix.Stat(dir, &there) != nil || there.Dev != locked.Dev || there.Ino != locked.Ino) {
		err = errSwept
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// ownCgroup is the directory of the cgroup (version 2) of this program.
func ownCgroup() (string, error) {
	mounts, err := os.ReadFile(mountinfo.Own)
	if err != nil {
		return "", err
	}
	memberships, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return locateCgroup(string(mounts), string(memberships))
}

// locateCgroup joins the mount point of the hierarchy with the path of this
// program's cgroup.
func locateCgroup(list, memberships string) (string, error) {
	path := ""
	for line := range strings.Lines(memberships) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok {
			path = strings.TrimSuffix(rest, "\n")
		}
	}
	if path == "" || strings.HasPrefix(path, "/..") {
		return "", errors.New("not in a cgroup of version 2 that can be seen")
	}
	mounts, err := mountinfo.Parse(list)
	if err != nil {
		return "", err
	}
	for _, m := range mounts {
		if m.Type != "cgroup2" {
			continue
		}
		if below, err := filepath.Rel(m.Root, path); err == nil && below != ".." && !strings.HasPrefix(below, "../") {
			return filepath.Join(m.Point, below), nil
		}
	}
	return "", errors.New("no cgroup file system of version 2 is mounted")
}

// sweepCgroups kills the processes that supervisors of dead programs left, and
// removes their cgroups. The lock tells them from those of living programs.
func sweepCgroups(own string) {
	stale, _ := filepath.Glob(filepath.Join(own, cgroupPrefix+"*"))
	for _, dir := range stale {
		fd, err := lockCgroup(dir, filelock.Exclusive)
		if err != nil {
			continue
		}
		if left := (&cgroup{path: dir}); !left.empty() {
			left.killAll()
			left.await(time.Now().Add(killWait))
		}
		removeCgroup(dir)
		unix.Close(fd)
	}
}

// removeCgroup removes a cgroup and the cgroups below it, as far as they are empty.
func removeCgroup(dir string) error {
	if err := unix.Rmdir(dir); err != unix.EBUSY && err != unix.ENOTEMPTY {
		return err
	}
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() {
			removeCgroup(filepath.Join(dir, entry.Name()))
		}
	}
	return unix.Rmdir(dir)
}

func (c *cgroups) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	removeCgroup(c.parent)
	unix.Close(c.lock)
}

// take returns an empty cgroup, and a descriptor of it for a clone into it.
func (c *cgroups) take() (*cgroup, int, error) {
	for {
		empty, kept, err := c.emptyPath()
		if err != nil {
			return nil, -1, err
		}
		fd, err := unix.Open(empty.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			return &cgroup{owner: c, path: empty.path, number: empty.number, before: empty.used, fresh: !kept}, fd, nil
		}
		if !kept { // a kept one may have been removed by another program
			return nil, -1, fmt.Errorf("open %s: %w", empty.path, err)
		}
	}
}

func (c *cgroups) emptyPath() (_ freeCgroup, kept bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.free); n > 0 {
		last := c.free[n-1]
		c.free = c.free[:n-1]
		return last, true, nil
	}
	c.next++
	path := filepath.Join(c.parent, strconv.Itoa(c.next))
	err = unix.Mkdir(path, 0o755)
	if err == unix.ENOENT {
		if err = c.makeParent(); err == nil {
			err = unix.Mkdir(path, 0o755)
		}
	}
	if err != nil {
		return freeCgroup{}, false, fmt.Errorf("make %s: %w", path, err)
	}
	return freeCgroup{path: path, number: c.next, used: account.CPU{Of: account.Tree}}, false, nil
}

// put takes back an empty cgroup.
func (c *cgroups) put(empty freeCgroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.free) < cgroupsKept {
		c.free = append(c.free, empty)
		return
	}
	removeCgroup(empty.path)
}

// A cgroup is a tree that the kernel tracks, however its processes change their
// parents and sessions.
type cgroup struct {
	owner  *cgroups
	leader *child // the child that was started in it; nil: none
	path   string
	number int
	before account.CPU // CPU time that was used in it by earlier processes
	fresh  bool        // there were no earlier processes
	killed atomic.Bool // killed by the kernel, which then also kills later members
}

// cgroupOf returns the cgroup that a tree is; nil: it is none.
func cgroupOf(t tree) *cgroup {
	if l, ok := t.(launchedTree); ok {
		t = l.tree
	}
	group, _ := t.(*cgroup)
	return group
}

func (g *cgroup) file(name string) string { return g.path + "/" + name }

// accounts names the control groups from which the usage of the processes is read.
func (g *cgroup) accounts() account.Groups {
	return account.Groups{Unified: g.path, Before: g.before, Fresh: g.fresh}
}

func (g *cgroup) signal(sig syscall.Signal) { g.signalBut(sig, 0) }

// signalBut lists the members, pins them with pidfds, and lists them again: a number
// in both lists belongs to a member. Parents come before their children.
func (g *cgroup) signalBut(sig syscall.Signal, but int) {
	var members []pinned
	for _, pid := range g.list() {
		if p, err := pin(pid); err == nil {
			members = append(members, p)
		}
	}
	still := g.members()
	for _, p := range members {
		if still[p.pid] && p.pid != but {
			p.signal(sig)
		}
		p.close()
	}
}

func (g *cgroup) members() map[int]bool {
	pids := make(map[int]bool)
	for _, pid := range g.list() {
		pids[pid] = true
	}
	return pids
}

// list returns the members in the order of the kernel, which is that in which they were forked.
func (g *cgroup) list() (pids []int) {
	list, _ := os.ReadFile(g.file("cgroup.procs"))
	for field := range bytes.FieldsSeq(list) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (g *cgroup) kill() {
	g.owner.kills <- struct{}{}
	g.killed.Store(true)
	g.killAll()
	<-g.owner.kills
	g.await(time.Now().Add(killWait))
}

// killAll retries for a short time if there is no free descriptor.
func (g *cgroup) killAll() {
	for round := range killRounds {
		err := os.WriteFile(g.file("cgroup.kill"), []byte("1"), 0)
		switch {
		case err == nil:
			return
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
			time.Sleep(time.Millisecond << min(round, 6))
			continue
		}
		if g.signal(unix.SIGKILL); g.empty() { // kernels before 5.14
			return
		}
	}
}

func (g *cgroup) await(deadline time.Time) {
	if g.owner != nil {
		g.owner.awaits <- struct{}{}
		defer func() { <-g.owner.awaits }()
	}
	fd, err := unix.Open(g.file("cgroup.events"), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	events := os.NewFile(uintptr(fd), "cgroup.events")
	defer events.Close()
	awaitFile(events, deadline, func(fd int) bool { return !readPopulated(fd) })
}

func (g *cgroup) empty() bool {
	events, err := unix.Open(g.file("cgroup.events"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err == unix.ENOENT
	}
	defer unix.Close(events)
	return !readPopulated(events)
}

func readPopulated(events int) bool {
	var text [64]byte
	n, err := unix.Pread(events, text[:], 0)
	return err != nil || !bytes.Contains(text[:n], []byte("populated 0"))
}

func (g *cgroup) release(tableView) bool {
	if !g.empty() || g.leader != nil && !g.leader.reap() {
		return false
	}
	if g.leader != nil {
		g.leader.kept.noCgroup() // before another process can be in it
	}
	if g.killed.Load() {
		removeCgroup(g.path)
	} else {
		used, _ := account.CPUOf(g.path)
		g.owner.put(freeCgroup{g.path, g.number, used})
	}
	return true
}
