package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/filelock"
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
// process with its descendants. Where there are controllers, they also limit it.
type cgroups struct {
	delegated delegated // the controllers that are enabled; set before the first process

	total Limits // what the parent limits; set before the first process

	broken atomic.Bool // the kernel does not start processes in them
	proven atomic.Bool // it does
	kills  chan struct{}
	awaits chan struct{}

	mu     sync.Mutex
	parent parentGroup
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

// parentName is the name of the cgroup below which all cgroups of a supervisor are. With a keeper it is the same for
// all programs of this keeper, and the keeper holds its lock.
func parentName(keeper Keeper) string {
	if keeper != nil {
		return fmt.Sprintf("%s%d-0", cgroupPrefix, keeper.Pid())
	}
	return fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), supervisors.Add(1))
}

// openCgroups makes the parent cgroup, or says why that is not possible. If alone is set, this program and its keeper may
// be moved, so that the controllers can be enabled.
func openCgroups(m *memberships, name string, keeper Keeper, alone bool) (*cgroups, error) {
	own, err := m.locate("", "cgroup2")
	if err != nil {
		return nil, err
	}
	sweepCgroups(own)
	c := &cgroups{kills: make(chan struct{}, cgroupKills), awaits: make(chan struct{}, cgroupAwaits)}
	c.delegated.enable(own, keeper, alone)
	if c.parent, err = makeParent(filepath.Join(c.delegated.own, name), keeper, heldCgroups); err != nil {
		return nil, err
	}
	c.delegated.enableBelow(c.parent.path)
	if keeper != nil {
		c.next = c.parent.last()
	}
	return c, nil
}

// A parentGroup is a cgroup below which those of commands are. It is locked while this program runs, so that other
// programs can tell it from one whose owner has died.
type parentGroup struct {
	path string
	lock int
}

// makeParent makes a parent cgroup. A keeper, if any, holds its lock by the name held.
func makeParent(path string, keeper Keeper, held Which) (parentGroup, error) {
	g := parentGroup{path: path, lock: -1}
	if err := g.make(); err != nil {
		return g, err
	}
	if keeper != nil {
		if err := keeper.Hold(0, Held{held, g.lock}); err != nil {
			unix.Close(g.lock)
			return g, err
		}
	}
	return g, nil
}

// make makes the cgroup and locks it. It retries if the sweep of another program comes
// between the two.
func (g *parentGroup) make() error {
	for deadline := time.Now().Add(killWait); ; time.Sleep(time.Millisecond) {
		if err := os.Mkdir(g.path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		fd, err := lockCgroup(g.path, filelock.Shared)
		if err == nil {
			if g.lock >= 0 {
				unix.Close(g.lock)
			}
			g.lock = fd
			return nil
		}
		if !errors.Is(err, errSwept) || time.Now().After(deadline) {
			os.Remove(g.path)
			return fmt.Errorf("lock %s: %w", g.path, err)
		}
	}
}

// add makes a cgroup below. If the parent is gone, because another program has removed it, it is made again.
func (g *parentGroup) add(number int) (path string, err error) {
	path = g.child(number)
	err = unix.Mkdir(path, 0o755)
	if err == unix.ENOENT {
		if err = g.make(); err == nil {
			err = unix.Mkdir(path, 0o755)
		}
	}
	if err != nil {
		return "", fmt.Errorf("make %s: %w", path, err)
	}
	return path, nil
}

func (g *parentGroup) child(number int) string { return filepath.Join(g.path, strconv.Itoa(number)) }

// numbers lists the cgroups that exist.
func (g *parentGroup) numbers() (numbers []int) {
	entries, _ := os.ReadDir(g.path)
	for _, entry := range entries {
		if number, err := strconv.Atoi(entry.Name()); err == nil && entry.IsDir() {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// last is the largest of the numbers.
func (g *parentGroup) last() (last int) {
	for _, number := range g.numbers() {
		last = max(last, number)
	}
	return last
}

func (g *parentGroup) close() {
	removeCgroup(g.path)
	unix.Close(g.lock)
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

// sweepCgroups kills the processes that supervisors of dead programs left, and
// removes their cgroups. The lock tells them from those of living programs.
func sweepCgroups(own string) {
	stale, _ := filepath.Glob(filepath.Join(own, cgroupPrefix+"*"))
	for _, dir := range stale {
		sweepGroup(dir)
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
	c.parent.close()
	c.delegated.leave()
}

// take returns an empty cgroup, and a descriptor of it for a clone into it. If it enforces limits, or the memory of all processes
// is limited, it is a new one: the peaks that it counts do not begin again.
func (c *cgroups) take(e *Enforced) (*cgroup, int, error) {
	once := e.inCgroup2() || c.total[LimitMemory] != 0 // the account tells which command the total has killed
	for {
		empty, kept, err := c.emptyPath(once)
		if err == nil && once {
			err = e.set(empty.path)
		}
		if err != nil {
			return nil, -1, err
		}
		fd, err := unix.Open(empty.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			return &cgroup{owner: c, path: empty.path, number: empty.number, before: empty.used, once: once}, fd, nil
		}
		if !kept { // a kept one may have been removed by another program
			return nil, -1, fmt.Errorf("open %s: %w", empty.path, err)
		}
	}
}

func (c *cgroups) emptyPath(fresh bool) (_ freeCgroup, kept bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.free); n > 0 && !fresh {
		last := c.free[n-1]
		c.free = c.free[:n-1]
		return last, true, nil
	}
	made, err := c.newLocked()
	return made, false, err
}

// newLocked makes an empty cgroup.
func (c *cgroups) newLocked() (freeCgroup, error) {
	c.next++
	path, err := c.parent.add(c.next)
	if err != nil {
		return freeCgroup{}, err
	}
	return freeCgroup{path: path, number: c.next, used: account.CPU{Of: account.Tree}}, nil
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
	killed atomic.Bool // it may have been killed by the kernel, which then also kills later members
	once   bool        // it is for one child only, so that its peaks and events are those of that child

	// after is the CPU time that was used in it when it was found empty at the exit of its leader; without a scope: it
	// was not empty. It saves release from reading the same files again.
	after account.CPU
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
	groups := account.Groups{Unified: g.path, Before: g.before, Fresh: g.once}
	if total := g.owner.total[LimitMemory]; total != 0 {
		groups.All, groups.TotalMemory = g.owner.parent.path, total
	}
	return groups
}

// finalAccounts is accounts when the leader has exited. release is not called before.
func (g *cgroup) finalAccounts() account.Groups {
	groups := g.accounts()
	if g.empty() {
		g.after, _ = account.CPUOf(g.path)
		groups.After = g.after
	}
	return groups
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
	known := g.after.Of == account.Tree
	if !known && !g.empty() || g.leader != nil && !g.leader.reap() {
		return false
	}
	if g.leader != nil {
		g.leader.kept.noCgroup() // before another process can be in it
	}
	if g.killed.Load() || g.once {
		removeCgroup(g.path)
	} else {
		if !known {
			g.after, _ = account.CPUOf(g.path)
		}
		g.owner.put(freeCgroup{g.path, g.number, g.after})
	}
	return true
}
