package proc

import (
	"maps"
	"slices"

	"github.com/tetherexec/tether/internal/observe"
)

// Look sees what the child and all that it started are doing. It looks at their
// cgroup, or else for them in the process table: who has left the session and given
// up his parent is missing then.
func (p *Process) Look() observe.Evidence {
	members, exited := p.members()
	target := observe.Target{Root: p.Pid(), Members: slices.Collect(maps.Keys(members)), Exited: exited}
	if p.child.stdin != nil {
		withDescriptor(p.child.stdin, func(fd int) error { target.Input = observe.Identify(fd); return nil })
	}
	for _, out := range p.outputs {
		withDescriptor(out.file, func(fd int) error {
			target.Outputs = append(target.Outputs, observe.Identify(fd))
			return nil
		})
	}
	return observe.Look(target)
}

// members are the processes of the tree, as usage finds them.
func (p *Process) members() (pids map[int]bool, exited bool) {
	p.mu.Lock()
	exited = p.state != running
	if p.settled {
		p.mu.Unlock()
		return nil, exited
	}
	tree, reaped := p.child.tree, p.state == closed
	if launched, ok := tree.(launchedTree); ok {
		tree = launched.tree
	}
	if group, ok := tree.(*cgroup); ok {
		pids = group.members() // while it cannot be released
	}
	p.mu.Unlock()
	if scan, ok := tree.(*scanTree); ok {
		return scan.membersIn(indexProcesses()), exited
	}
	if pids != nil && !reaped {
		pids[p.child.pid] = true // the dead are no members
	}
	return pids, exited
}
