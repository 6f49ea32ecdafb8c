package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killRounds limits how often a kill searches again for processes that were forked
// while it killed.
const killRounds = 10

// A processTable is a snapshot of all processes of the system, by pid.
type processTable map[int]processEntry

type processEntry struct {
	parent, group, session int
	started                string // together with the pid it identifies a process for ever
	dead                   bool
}

// readProcessTable reads all processes except this one.
func readProcessTable() processTable {
	table := make(processTable)
	self := os.Getpid()
	proc, err := os.Open("/proc")
	if err != nil {
		return table
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != self {
			if entry, ok := readProcess(pid); ok {
				table[pid] = entry
			}
		}
	}
	return table
}

// readProcess reads /proc/PID/stat. The name in it may contain anything, so the
// fields are counted from its closing parenthesis.
func readProcess(pid int) (processEntry, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processEntry{}, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return processEntry{}, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(fields[i])); return n }
	return processEntry{
		parent:  number(1),
		group:   number(2),
		session: number(3),
		started: string(fields[19]),
		dead:    fields[0][0] == 'Z' || fields[0][0] == 'X',
	}, true
}

// pin pins the process that was seen, and not another that got its pid since.
func (e processEntry) pin(pid int) (pinned, bool) {
	p, err := pin(pid)
	if err != nil {
		return pinned{}, false
	}
	if now, ok := readProcess(pid); !ok || now.started != e.started {
		p.close()
		return pinned{}, false
	}
	return p, true
}

// A treeSearch finds trees in the process table: sessions and groups by their number, their
// descendants, processes that hold their outputs, and processes that were found by an
// earlier search. It misses a process that left the session, closed the outputs and lost its
// parent before the first search, unless the process is in a cgroup that limits the tree.
type treeSearch struct {
	leaders map[int]bool    // pids of leaders, which are also the numbers of their groups and sessions
	outputs map[string]bool // targets of links in /proc/PID/fd to the trees' outputs

	mu    sync.Mutex
	known map[int]string // pid → started, of all processes that were ever found
}

func newTreeSearch() treeSearch {
	return treeSearch{leaders: make(map[int]bool), outputs: make(map[string]bool), known: make(map[int]string)}
}

// A scanTree is the tree of one child, found in the process table. The child stays unreaped
// until all have ended, so that no other process gets its pid.
type scanTree struct {
	treeSearch
	leader *child
	note   *note // for the next server, in case this one is killed; nil: none
}

func newScanTree(leader *child, notes *notebook) *scanTree {
	t := &scanTree{treeSearch: newTreeSearch(), leader: leader}
	t.leaders[leader.pid] = true
	var pipes []uint64
	for _, out := range leader.outputs {
		withDescriptor(out.file, func(fd int) error {
			if leader.tty {
				n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
				t.outputs["/dev/pts/"+strconv.Itoa(n)] = true
				return err
			}
			var st unix.Stat_t
			err := unix.Fstat(fd, &st)
			t.outputs[pipeLink(st.Ino)] = true
			pipes = append(pipes, st.Ino)
			return err
		})
	}
	t.note = notes.add(leader.pid, pipes)
	return t
}

// pipeLink is the target of a link in /proc/PID/fd to a pipe.
func pipeLink(inode uint64) string { return "pipe:[" + strconv.FormatUint(inode, 10) + "]" }

// members returns the living processes of the tree, with those in the cgroups of version 1 that limit it.
func (t *scanTree) members(table processTable, holders bool) map[int]processEntry {
	return t.treeSearch.members(table, holders, t.leader.limits.members()) // the table is older than the list: pin refuses a number that has changed hands
}

// members returns the living processes of the trees. Those of more belong to them in any case.
func (t *treeSearch) members(table processTable, holders bool, more []int) map[int]processEntry {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := make(map[int]processEntry)
	for pid, entry := range table {
		if t.leaders[pid] || t.leaders[entry.group] || t.leaders[entry.session] || t.known[pid] == entry.started {
			found[pid] = entry
		}
	}
	for _, pid := range more {
		if entry, ok := table[pid]; ok {
			found[pid] = entry
		}
	}
	addDescendants(table, found)
	if holders {
		for pid, entry := range table {
			if _, ok := found[pid]; !ok && !entry.dead && t.holdsOutput(pid) {
				found[pid] = entry
			}
		}
		addDescendants(table, found)
	}
	for pid, entry := range found {
		if entry.dead {
			delete(found, pid)
			continue
		}
		t.known[pid] = entry.started
	}
	return found
}

func addDescendants(table processTable, found map[int]processEntry) {
	for grown := true; grown; {
		grown = false
		for pid, entry := range table {
			if _, in := found[pid]; in {
				continue
			}
			if _, in := found[entry.parent]; in {
				found[pid] = entry
				grown = true
			}
		}
	}
}

// holdsOutput reports whether a process can write to one of the outputs. A child of
// this program between fork and exec may hold copies of all descriptors. It is
// recognised because it still runs this program.
func (t *treeSearch) holdsOutput(pid int) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		name := filepath.Join(dir, entry.Name())
		link, err := os.Readlink(name)
		if err != nil || !t.outputs[link] {
			continue
		}
		var st unix.Stat_t
		if unix.Lstat(name, &st) == nil && st.Mode&unix.S_IWUSR != 0 {
			return !sameProgram(pid)
		}
	}
	return false
}

func sameProgram(pid int) bool {
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return true // it has ended, or may not be read
	}
	ours, err := os.Readlink("/proc/self/exe")
	return err != nil || strings.TrimSuffix(theirs, " (deleted)") == strings.TrimSuffix(ours, " (deleted)")
}

func (t *scanTree) signal(sig syscall.Signal) { t.signalBut(sig, 0) }

func (t *scanTree) signalBut(sig syscall.Signal, but int) {
	found := t.members(readProcessTable(), true)
	delete(found, but)
	for _, p := range signalEach(found, sig) {
		p.close()
	}
}

// signalEach signals processes that were seen alive, and returns those that still were,
// pinned. Parents come before their children: otherwise a shell could go on with its next command.
func signalEach(seen map[int]processEntry, sig syscall.Signal) []pinned {
	var signalled []pinned
	for _, pid := range parentsFirst(seen) {
		entry := seen[pid]
		if entry.dead {
			continue
		}
		p, ok := entry.pin(pid)
		if !ok {
			continue
		}
		if p.signal(sig) != nil {
			p.close()
			continue
		}
		signalled = append(signalled, p)
	}
	return signalled
}

// parentsFirst returns the pids such that each process comes behind its parent.
func parentsFirst(seen map[int]processEntry) (pids []int) {
	children := map[int][]int{}
	for pid, entry := range seen {
		if _, ok := seen[entry.parent]; !ok || entry.parent == pid {
			pids = append(pids, pid)
			continue
		}
		children[entry.parent] = append(children[entry.parent], pid)
	}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids
}

// killInRounds kills the processes that find returns until there are none: processes may
// have been forked meanwhile. It gives up after killRounds or killWait, and returns how many
// it killed.
func killInRounds(find func() map[int]processEntry) (count int) {
	deadline := time.Now().Add(killWait)
	for range killRounds {
		killed := signalEach(find(), unix.SIGKILL)
		for _, p := range killed {
			p.await(deadline)
			p.close()
		}
		count += len(killed)
		if len(killed) == 0 || time.Now().After(deadline) {
			break
		}
	}
	return count
}

func (t *scanTree) kill() {
	killInRounds(func() map[int]processEntry { return t.members(readProcessTable(), true) })
}

func (t *scanTree) empty() bool { return len(t.members(readProcessTable(), false)) == 0 }

// await does not wait for processes that are forked meanwhile.
func (t *scanTree) await(deadline time.Time) {
	for pid, entry := range t.members(readProcessTable(), false) {
		if p, ok := entry.pin(pid); ok {
			p.await(deadline)
			p.close()
		}
	}
}

func (t *scanTree) release(view tableView) bool {
	if view == nil || len(t.members(view(), false)) > 0 {
		return false
	}
	t.note.remove() // before another process can get the pid
	t.note = nil
	return t.leader.reap()
}
