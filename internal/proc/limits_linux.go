package proc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/fork"
)

const (
	// cpuPeriod is the time, in microseconds, in which a command gets its part of the processors. It is the default of the
	// kernel.
	cpuPeriod = 100_000

	// commandScore is by how much the score of a command for the out-of-memory killer is above that of the server.
	commandScore = 500
	maxScore     = 1000
)

// A limiter makes the cgroups that limit commands.
type limiter struct {
	name   string // of the parent cgroups
	keeper Keeper
	v2     *cgroups // nil: none

	v2Missing error // why there are none

	v1 [groupLimits]hierarchy

	total     Limits
	totalErrs error

	score fork.Write              // what each command writes; without a path: nothing
	joins [groupLimits]fork.Write // the cgroups of version 1 that each command joins, unless it has its own

	mu   sync.Mutex
	next int // number of the last cgroups of version 1

	spare    *limitGroups // new ones for the next process with limits; nil: none
	preparer *sync.WaitGroup
	prepares bool // a spare is being made
}

// A hierarchy is that of one controller of version 1.
type hierarchy struct {
	own     string // the cgroup of this program
	missing error  // why it cannot be used

	parent parentGroup // the limiter's lock guards it; its path is empty until it is needed
}

// heldV1 is the keeper's name for the lock of the parent cgroup of the first controller of version 1; the others follow.
const heldV1 = heldCgroups - Which(groupLimits)

// newLimiter makes a limiter. If groups is nil, missing says why.
func newLimiter(m *memberships, name string, cfg Config, groups *cgroups, missing error, tasks *sync.WaitGroup) *limiter {
	l := &limiter{name: name, keeper: cfg.Keeper, v2: groups, v2Missing: missing, total: cfg.Total, preparer: tasks}
	for i := range l.v1 {
		l.v1[i].find(m, controllerNames[i], cfg.NoCgroups)
	}
	if cfg.Keeper != nil {
		l.openEarlier()
	}
	l.limitAll()
	if text, ok := scoreOfCommands(); ok {
		l.score = fork.Write{Path: "/proc/self/oom_score_adj", Text: text, Step: fork.StepScore, Optional: true}
	}
	return l
}

// find finds the cgroup of this program, and removes those of programs that have died.
func (h *hierarchy) find(m *memberships, controller string, off bool) {
	if off || m == nil {
		h.missing = errors.New("cgroups are not used")
		return
	}
	if h.own, h.missing = m.locate(controller, "cgroup"); h.missing != nil {
		return
	}
	if h.missing = unix.Access(h.own, unix.W_OK); h.missing != nil {
		h.missing = fmt.Errorf("%s cannot be written: %w", h.own, h.missing)
		return
	}
	stale, _ := filepath.Glob(filepath.Join(h.own, cgroupPrefix+"*"))
	for _, dir := range stale {
		if fd, err := lockCgroup(dir, filelock.Exclusive); err == nil {
			endGroup(dir)
			unix.Close(fd)
		}
	}
}

// openEarlier takes over the cgroups of an earlier program of the keeper.
func (l *limiter) openEarlier() {
	for i := range l.v1 {
		h := &l.v1[i]
		path := filepath.Join(h.own, l.name)
		if _, err := os.Stat(path); h.missing != nil || err != nil {
			continue
		}
		if parent, err := l.parentLocked(i); err == nil {
			l.next = max(l.next, parent.last())
		}
	}
}

// parentLocked returns the parent cgroup of a controller of version 1. The first call makes it.
func (l *limiter) parentLocked(controller int) (*parentGroup, error) {
	h := &l.v1[controller]
	if h.missing != nil || h.parent.path != "" {
		return &h.parent, h.missing
	}
	parent, err := makeParent(filepath.Join(h.own, l.name), l.keeper, heldV1+Which(controller))
	if err != nil {
		return nil, err
	}
	if Limit(controller) == LimitMemory && strings.TrimSpace(readText(parent.path+"/memory.use_hierarchy")) == "0" {
		_ = writeText(parent.path+"/memory.use_hierarchy", "1") // old kernels count each cgroup on its own
	}
	h.parent = parent
	return &h.parent, nil
}

// limitAll limits all commands together.
func (l *limiter) limitAll() {
	for i, value := range l.total[:groupLimits] {
		if value == 0 {
			continue
		}
		if err := l.limitParent(i, value); err != nil {
			l.totalErrs = errors.Join(l.totalErrs, l.unenforceable(Limit(i), err))
		}
	}
}

// limitParent limits the parent cgroup of a controller, and sees to it that each command is in it.
func (l *limiter) limitParent(controller int, value uint64) error {
	if l.canV2(Limit(controller)) {
		l.v2.total[controller] = value
		return setLimit(l.v2.parent.path, ByCgroup2, Limit(controller), value)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	parent, err := l.parentLocked(controller)
	if err != nil {
		return err
	}
	if err := setLimit(parent.path, ByCgroup1, Limit(controller), value); err != nil {
		return err
	}
	l.joins[controller] = join(parent.path)
	return nil
}

// canV2 reports whether cgroups of version 2 can enforce a limit.
func (l *limiter) canV2(limit Limit) bool {
	if l.v2 == nil {
		return false
	}
	can, _ := l.v2.can(limit)
	return can
}

// join lets a child move itself into a cgroup of version 1. That takes no global lock, unlike moving another process.
func join(path string) fork.Write {
	return fork.Write{Path: path + "/tasks", Text: "0", Step: fork.StepGroup}
}

// setLimit limits a cgroup, of a command or of all; 0: not at all.
func setLimit(path string, by By, limit Limit, value uint64) error {
	if value == 0 {
		return nil
	}
	text := strconv.FormatUint(value, 10)
	quota := strconv.FormatUint(value*cpuPeriod/1000, 10)
	switch {
	case limit == LimitMemory && by == ByCgroup2:
		_ = writeText(path+"/memory.swap.max", "0") // there may be no swap
		return writeText(path+"/memory.max", text)
	case limit == LimitMemory:
		err := writeText(path+"/memory.limit_in_bytes", text)
		if swapCounts() {
			err = errors.Join(err, writeText(path+"/memory.memsw.limit_in_bytes", text))
		}
		return err
	case limit == LimitCPUs && by == ByCgroup2:
		return writeText(path+"/cpu.max", quota+" "+strconv.Itoa(cpuPeriod))
	case limit == LimitCPUs:
		return writeText(path+"/cpu.cfs_quota_us", quota)
	}
	return writeText(path+"/pids.max", text)
}

// swapCounts reports whether this machine has swap, and its use is counted in version 1.
var swapCounts = sync.OnceValue(func() bool {
	m, err := ownMemberships()
	if err != nil {
		return false
	}
	own, err := m.locate("memory", "cgroup")
	return err == nil && unix.Access(own+"/memory.memsw.usage_in_bytes", unix.F_OK) == nil
})

// scoreOfCommands is the score of commands for the out-of-memory killer, if it is above that of this program.
func scoreOfCommands() (text string, ok bool) {
	own, err := strconv.Atoi(strings.TrimSpace(readText("/proc/self/oom_score_adj")))
	if err != nil || own >= maxScore {
		return "", false
	}
	return strconv.Itoa(min(own+commandScore, maxScore)), true
}

// method decides how a limit is enforced. With an error, By is what bestEffort gets.
func (l *limiter) method(limit Limit) (By, error) {
	switch limit {
	case LimitFiles:
		return ByRlimit, nil
	case LimitTime:
		return ByTimer, nil
	case LimitDisk:
		return ByRlimit, &LimitError{limit, "the kernel limits only the size of each file", "Let the command write to a file system of limited size."}
	}
	if l.canV2(limit) && !l.v2.broken.Load() {
		return ByCgroup2, nil
	}
	l.mu.Lock()
	_, err := l.parentLocked(int(limit))
	l.mu.Unlock()
	if err == nil {
		return ByCgroup1, nil
	}
	by := ByNothing
	if limit == LimitProcesses && os.Geteuid() != 0 {
		by = ByRlimit // it counts all processes of this user
	}
	return by, l.unenforceable(limit, err)
}

func (l *limiter) unenforceable(limit Limit, err error) error {
	why := l.v2Missing
	if l.v2 != nil {
		_, why = l.v2.can(limit)
	}
	if why == nil {
		why = errors.New("not used")
	}
	return &LimitError{
		limit, fmt.Sprintf("the controller %q of control groups cannot be used (version 2: %v; version 1: %v)", controllerNames[limit], why, err),
		"Run the server in a cgroup that is delegated to it, such as by `systemd-run --user --scope -p Delegate=yes tether serve`.",
	}
}

// decide says how each limit is enforced, or which one cannot be.
func (l *limiter) decide(limits Limits, bestEffort bool) (e Enforced, err error) {
	e.Limits = limits
	for i, value := range limits {
		if value == 0 {
			continue
		}
		var missing error
		if e.By[i], missing = l.method(Limit(i)); missing != nil && !bestEffort {
			err = errors.Join(err, missing)
		}
	}
	return e, err
}

// inCgroup2 reports whether the process has a cgroup of version 2 with limits.
func (e *Enforced) inCgroup2() bool { return e.uses(ByCgroup2) }

func (e *Enforced) uses(by By) bool {
	for i, value := range e.Limits {
		if value != 0 && e.By[i] == by {
			return true
		}
	}
	return false
}

// set sets the limits of a new cgroup of version 2, or removes it.
func (e *Enforced) set(path string) error {
	for i, value := range e.Limits[:groupLimits] {
		if e.By[i] != ByCgroup2 {
			continue
		}
		if Limit(i) == LimitMemory {
			_ = writeText(path+"/memory.oom.group", "1") // not in the cgroup of all commands: the kernel would kill all of them at once
		}
		if err := setLimit(path, ByCgroup2, Limit(i), value); err != nil {
			removeCgroup(path)
			return fmt.Errorf("limit the %s of a command: %w", Limit(i), err)
		}
	}
	return nil
}

// rlimits are the limits that the child sets itself.
func (e *Enforced) rlimits() (list []fork.Rlimit) {
	for i, value := range e.Limits {
		if value == 0 || e.By[i] != ByRlimit {
			continue
		}
		switch Limit(i) {
		case LimitFiles:
			list = append(list, fork.Rlimit{Resource: unix.RLIMIT_NOFILE, Limit: value})
		case LimitDisk:
			list = append(list, fork.Rlimit{Resource: unix.RLIMIT_FSIZE, Limit: value})
		case LimitProcesses:
			list = append(list, fork.Rlimit{Resource: unix.RLIMIT_NPROC, Limit: value + ownThreads()})
		}
	}
	return list
}

// ownThreads is how many threads the processes of this user have, as far as they can be seen.
func ownThreads() (count uint64) {
	uid := strconv.Itoa(os.Getuid())
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		var threads, user string
		for line := range strings.Lines(readText(dir + "/status")) {
			if rest, ok := strings.CutPrefix(line, "Threads:"); ok {
				threads = strings.TrimSpace(rest)
			}
			if rest, ok := strings.CutPrefix(line, "Uid:"); ok {
				user = strings.Fields(rest)[0]
			}
		}
		if n, err := strconv.ParseUint(threads, 10, 32); err == nil && user == uid {
			count += n
		}
	}
	return min(count, math.MaxInt32)
}

// close removes the parent cgroups. No process is left.
func (l *limiter) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.v1 {
		if parent := &l.v1[i].parent; parent.path != "" {
			parent.close()
		}
	}
}

// MachineLimits are the largest limits that mean something on this machine; 0: unknown.
func MachineLimits() (most Limits) {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		most[LimitMemory] = uint64(info.Totalram) * uint64(info.Unit)
	}
	most[LimitCPUs] = uint64(runtime.NumCPU()) * 1000
	most[LimitProcesses], _ = strconv.ParseUint(strings.TrimSpace(readText("/proc/sys/kernel/pid_max")), 10, 64)
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		most[LimitFiles] = files.Max
	}
	if mayRaiseLimits() {
		if open, err := strconv.ParseUint(strings.TrimSpace(readText("/proc/sys/fs/nr_open")), 10, 64); err == nil {
			most[LimitFiles] = open
		}
	}
	return most
}

// mayRaiseLimits reports whether this program may raise the hard limits of its children. Root in a container often may not,
// and in a user namespace the capability has no effect.
func mayRaiseLimits() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if unix.Capget(&header, &sets[0]) != nil || sets[0].Effective&(1<<unix.CAP_SYS_RESOURCE) == 0 {
		return false
	}
	return strings.Join(strings.Fields(readText("/proc/self/uid_map")), " ") == "0 0 4294967295"
}

// limitSupport implements Supervisor.LimitSupport.
func (h *host) limitSupport() (s LimitSupport) {
	for i := range LimitCount {
		s.By[i], s.Missing[i] = h.limiter.method(Limit(i))
	}
	return s
}

// checkLimits returns an error if a limit cannot be enforced.
func (h *host) checkLimits(limits Limits) error {
	_, err := h.limiter.decide(limits, false)
	return err
}

// totalErr says which of Config.Total cannot be enforced.
func (h *host) totalErr() error { return h.limiter.totalErrs }
