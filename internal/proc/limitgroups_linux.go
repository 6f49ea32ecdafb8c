package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/fork"
)

// limitGroups are the cgroups of version 1 of one process. They belong to it alone. nil: none.
type limitGroups struct {
	owner  *limiter
	number int
	paths  [groupLimits]string // "": none
	own    [groupLimits]bool   // those that the process is in
	slot   *arena.Slot         // where the number is recorded; nil: nowhere
}

// make makes the cgroups of version 1 for a process; nil: it needs none.
func (l *limiter) make(e *Enforced) (*limitGroups, error) {
	g := &limitGroups{owner: l}
	g.own = l.ownGroups(e)
	if g.own == [groupLimits]bool{} {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare != nil {
		g.number, g.paths, l.spare = l.spare.number, l.spare.paths, nil
	} else {
		l.next++
		g.number = l.next
	}
	if !l.prepares {
		l.prepares = true
		l.preparer.Go(l.prepare) // ends soon
	}
	for i, own := range g.own {
		if !own {
			continue
		}
		if err := g.addLocked(i, e.Limits[i]); err != nil {
			g.end()
			return nil, fmt.Errorf("limit the %s of a command: %w", Limit(i), err)
		}
	}
	return g, nil
}

// ownGroups tells for which controllers a process has a cgroup of version 1 of its own: those that limit it, and that of the memory if the
// memory of all processes is limited, so that the account tells which command the total has killed.
func (l *limiter) ownGroups(e *Enforced) (own [groupLimits]bool) {
	for i := range own {
		own[i] = e.Limits[i] != 0 && e.By[i] == ByCgroup1
	}
	own[LimitMemory] = own[LimitMemory] || l.joins[LimitMemory].Path != ""
	return own
}

// addLocked makes the cgroup of a controller, if it was not prepared. value is its limit, or 0.
func (g *limitGroups) addLocked(controller int, value uint64) error {
	parent, err := g.owner.parentLocked(controller)
	if err == nil && g.paths[controller] == "" {
		g.paths[controller], err = parent.add(g.number)
	}
	if err == nil {
		err = setLimit(g.paths[controller], ByCgroup1, Limit(controller), value)
	}
	return err
}

// prepare makes the cgroups for the next process with limits: making them takes most of what limits cost.
func (l *limiter) prepare() {
	l.mu.Lock()
	l.next++
	g := &limitGroups{owner: l, number: l.next}
	for i := range l.v1 {
		if l.v1[i].parent.path != "" {
			g.paths[i] = l.v1[i].parent.child(g.number)
		}
	}
	l.mu.Unlock()
	for i, path := range g.paths {
		if path != "" && unix.Mkdir(path, 0o755) != nil {
			g.paths[i] = ""
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spare, l.prepares = g, false
}

// writes returns what the child writes: it joins its own cgroups, and those of all commands for the other controllers.
func (l *limiter) writes(g *limitGroups) (list []fork.Write) {
	for i, write := range l.joins {
		if g != nil && g.own[i] {
			write = join(g.paths[i])
		}
		if write.Path != "" {
			list = append(list, write)
		}
	}
	if l.score.Path != "" {
		list = append(list, l.score)
	}
	return list
}

// claim records the cgroups in a slot, so that they are not removed as those of no process.
func (g *limitGroups) claim(slot *arena.Slot) {
	if g != nil {
		g.slot = slot
		slot.LimitGroup.Store(uint64(g.number), pointDetail)
	}
}

// unclaim records that the cgroups are gone, or belong to no process.
func (g *limitGroups) unclaim() {
	if g != nil && g.slot != nil {
		g.slot.LimitGroup.Store(0, pointDetail)
		g.slot = nil
	}
}

// adopt returns the cgroups of version 1 of a slot; nil: none.
func (l *limiter) adopt(slot *arena.Slot) *limitGroups {
	number := int(slot.LimitGroup.Load())
	if number == 0 || !hasLimits(slot) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = max(l.next, number)
	e := storedLimits(slot)
	g := &limitGroups{owner: l, number: number, slot: slot, own: l.ownGroups(&e)}
	for i := range g.paths {
		if l.v1[i].parent.path != "" {
			g.paths[i] = l.v1[i].parent.child(number)
		}
	}
	return g
}

// release removes the cgroups if no process is in them.
func (g *limitGroups) release() bool {
	if g == nil {
		return true
	}
	for _, path := range g.paths {
		if path == "" {
			continue
		}
		if err := removeCgroup(path); err != nil && err != unix.ENOENT {
			return false
		}
	}
	g.unclaim()
	return true
}

// drop removes the cgroups of a process that was not started, or whose start was abandoned.
func (g *limitGroups) drop() {
	if !g.release() {
		g.end()
		g.unclaim()
	}
}

// end kills what is in the cgroups, and removes them.
func (g *limitGroups) end() {
	if g == nil {
		return
	}
	for _, path := range g.paths {
		if path != "" {
			endGroup(path)
		}
	}
}

// members lists the processes in the cgroups of the process.
func (g *limitGroups) members() (pids []int) {
	if g == nil {
		return nil
	}
	for i, path := range g.paths {
		if g.own[i] {
			pids = append(pids, groupMembers(path)...)
		}
	}
	return pids
}

// groupMembers lists the processes in a cgroup of version 1 and in those below it.
func groupMembers(dir string) (pids []int) {
	pids = (&cgroup{path: dir}).list()
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.IsDir() {
			pids = append(pids, groupMembers(filepath.Join(dir, entry.Name()))...)
		}
	}
	return pids
}

// endGroup kills what is in a cgroup of version 1, and removes it.
func endGroup(dir string) {
	for deadline := time.Now().Add(killWait); ; time.Sleep(time.Millisecond) {
		if err := removeCgroup(dir); err == nil || err == unix.ENOENT || time.Now().After(deadline) {
			return
		}
		killGroupMembers(dir)
	}
}

// killGroupMembers kills the processes in a cgroup of version 1. It lists them again after it has pinned them: a
// number in both lists belongs to a member.
func killGroupMembers(dir string) {
	var found []pinned
	for _, pid := range groupMembers(dir) {
		if p, err := pin(pid); err == nil {
			found = append(found, p)
		}
	}
	still := map[int]bool{}
	for _, pid := range groupMembers(dir) {
		still[pid] = true
	}
	for _, p := range found {
		if still[p.pid] {
			p.signal(unix.SIGKILL)
		}
		p.close()
	}
}

// sweepUnclaimed removes in the background the cgroups of version 1 that no slot claims.
func (l *limiter) sweepUnclaimed(s *Supervisor, claimed map[int]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for number := range claimed { // their slots may outlive them
		l.next = max(l.next, number)
	}
	for i := range l.v1 {
		parent := &l.v1[i].parent
		for _, number := range parent.numbers() {
			if parent.path != "" && !claimed[number] {
				s.tasks.Go(func() { endGroup(parent.child(number)) }) // ends soon
			}
		}
	}
}

// addTo names the cgroups that only this process has had, for its account.
func (g *limitGroups) addTo(a *account.Groups) {
	if g == nil {
		return
	}
	if g.own[LimitMemory] {
		a.Memory = g.paths[LimitMemory]
		if l := g.owner; l.joins[LimitMemory].Path != "" {
			a.All, a.TotalMemory = filepath.Dir(a.Memory), l.total[LimitMemory]
		}
	}
	if g.own[LimitProcesses] {
		a.Pids = g.paths[LimitProcesses]
	}
}
