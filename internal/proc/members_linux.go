package proc

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/account"
)

// A Finder finds the processes that commands have started. It reads the process
// table at most once for all commands that it is asked about.
type Finder struct{ table func() processIndex }

// NewFinder returns a finder for the current moment.
func NewFinder() *Finder { return &Finder{sync.OnceValue(indexProcesses)} }

// Members returns the pids of the child and everything that it started: the members
// of its cgroup or, without a cgroup, those that the process table shows. The table
// does not show a process that has left the session and lost its parent. The list is
// empty when no process is left. The pids are only for display: each may belong to
// another process a moment later.
func (f *Finder) Members(p *Process) []int {
	p.mu.Lock()
	if p.settled {
		p.mu.Unlock()
		return nil
	}
	tree, reaped := p.child.tree, p.state == closed || p.child.gone()
	if launched, ok := tree.(launchedTree); ok {
		tree = launched.tree
	}
	var members map[int]bool
	if group, ok := tree.(*cgroup); ok {
		members = group.members() // locked, so that the cgroup is not released
	}
	p.mu.Unlock()
	if scan, ok := tree.(*scanTree); ok {
		members = scan.membersIn(f.table())
	} else if !reaped {
		members[p.child.pid] = true // a process that has exited is no member of its cgroup
	}
	return slices.Collect(maps.Keys(members))
}

// CPU returns the CPU time of the child and everything that it started, including
// processes that have ended. It is only known for a process with a cgroup.
func (p *Process) CPU() (used time.Duration, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled {
		return 0, false
	}
	group := cgroupOf(p.child.tree)
	if group == nil {
		return 0, false
	}
	all, known := account.CPUOf(group.path)
	return all.User + all.System - group.before.User - group.before.System, known
}

// Ends passes this side's ends of the child's standard input and outputs, as
// descriptors, to the functions. An end that is closed is left out.
func (p *Process) Ends(input, output func(fd int)) {
	if p.child.stdin != nil {
		withDescriptor(p.child.stdin, func(fd int) error { input(fd); return nil })
	}
	for _, out := range p.outputs {
		withDescriptor(out.file, func(fd int) error { output(fd); return nil })
	}
}

// A processIndex is a snapshot of all processes, indexed for finding trees.
type processIndex struct {
	table     processTable
	children  map[int][]int // by parent
	inSession map[int][]int // by session
	inGroup   map[int][]int // by group
}

func indexProcesses() processIndex {
	x := processIndex{readProcessTable(), map[int][]int{}, map[int][]int{}, map[int][]int{}}
	for pid, entry := range x.table {
		x.children[entry.parent] = append(x.children[entry.parent], pid)
		x.inSession[entry.session] = append(x.inSession[entry.session], pid)
		x.inGroup[entry.group] = append(x.inGroup[entry.group], pid)
	}
	return x
}

// membersIn finds the tree in the process table alone: it does not find a process
// that is in the tree only because it holds one of its outputs.
func (t *scanTree) membersIn(x processIndex) map[int]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	members, queue := map[int]bool{}, []int{t.leader.pid}
	queue = append(queue, x.inSession[t.leader.pid]...)
	queue = append(queue, x.inGroup[t.leader.pid]...)
	for pid, started := range t.known {
		if x.table[pid].started == started {
			queue = append(queue, pid)
		}
	}
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		if !members[pid] {
			members[pid] = true
			queue = append(queue, x.children[pid]...)
		}
	}
	return members
}
