package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// clockTick is the unit of times in /proc, the same on every architecture that Go
// runs on.
const clockTick = time.Second / 100

// lookAtUsage costs a few small files per process and member; without cgroups one
// look at the process table in addition, whatever the number of processes.
func lookAtUsage(list []*Process) map[*Process]Usage {
	found := make(map[*Process]Usage, len(list))
	table := sync.OnceValue(indexProcesses)
	for _, p := range list {
		if used, ok := p.usage(table); ok {
			found[p] = used
		}
	}
	return found
}

// usage finds the members of a cgroup while that cannot be released, and all else
// without holding anybody up: a number that was given to somebody else in between is
// a wrong figure in a list, no more.
func (p *Process) usage(table func() processIndex) (used Usage, ok bool) {
	p.mu.Lock()
	if p.settled {
		p.mu.Unlock()
		return Usage{}, false
	}
	tree, reaped := p.child.tree, p.state == closed
	if launched, ok := tree.(launchedTree); ok {
		tree = launched.tree
	}
	var members map[int]bool
	var total time.Duration
	group, counted := tree.(*cgroup)
	if counted {
		members = group.members()
		total, counted = group.cpu()
		total -= group.before
	}
	p.mu.Unlock()
	if scan, ok := tree.(*scanTree); ok {
		members = scan.membersIn(table())
	} else if !reaped {
		members[p.child.pid] = true // the dead are no members
	}
	for pid := range members {
		if one, there := readUsage(pid); there {
			used.CPU += one.CPU
			used.Memory += one.Memory
			ok = true
		}
	}
	if counted {
		used.CPU = total
	}
	return used, ok
}

// readUsage reads what one process uses, with the time of its children that it has
// waited for.
func readUsage(pid int) (Usage, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return Usage{}, false
	}
	number := func(i int) uint64 { n, _ := strconv.ParseUint(string(fields[i]), 10, 63); return n }
	ticks := number(11) + number(12) + number(13) + number(14)
	return Usage{time.Duration(ticks) * clockTick, number(21) * uint64(os.Getpagesize())}, true
}

// A processIndex is a look at all processes, in the order in which trees are found.
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

// membersIn finds the tree without looking at everybody: who only holds its outputs
// is missing.
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

// cpu is the time that was used in the cgroup since it was made.
func (g *cgroup) cpu() (time.Duration, bool) {
	fd, err := unix.Open(g.file("cpu.stat"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	var text [64]byte // the first line
	n, err := unix.Read(fd, text[:])
	if err != nil {
		return 0, false
	}
	rest, ok := bytes.CutPrefix(text[:n], []byte("usage_usec "))
	digits, _, whole := bytes.Cut(rest, []byte("\n"))
	usec, err := strconv.ParseInt(string(digits), 10, 64)
	return time.Duration(usec) * time.Microsecond, ok && whole && err == nil
}
