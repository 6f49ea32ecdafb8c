package observe

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tetherexec/tether/internal/proc"
)

// Limits of one inspection. They limit its cost however many processes there are.
const (
	maxProcesses   = 256
	maxThreads     = 32  // of one process
	maxDescriptors = 512 // of one process, when the other end of a pipe is searched
	maxWatched     = 64  // files of one call that waits for several
	maxStrangers   = 4096
	lookTime       = 200 * time.Millisecond
)

// A processTree is a process and everything that it started.
type processTree struct {
	root    int
	members []int // pids, also that of root, as far as known
	input   FileID
	outputs []FileID
	exited  bool // root has exited
}

// inspect inspects the processes of a tree. It may see little or nothing of other
// users' processes, and sets Partial then.
func inspect(t processTree) Evidence {
	l := look{deadline: time.Now().Add(lookTime)}
	e := Evidence{At: time.Now(), Looked: true, Root: t.root, Exited: t.exited, Input: t.input, Outputs: t.outputs}
	members := slices.Clone(t.members)
	slices.Sort(members)
	if len(members) > maxProcesses {
		members, e.Partial = members[:maxProcesses], true
	}
	for _, pid := range members {
		p, ok := l.process(pid)
		switch {
		case ok && t.exited && pid == t.root: // it has exited and is not reaped yet
		case ok:
			e.Processes = append(e.Processes, p)
		}
	}
	l.follow(&e)
	if t.exited {
		e.Holders = l.outputHolders(e)
	}
	e.Partial = e.Partial || l.partial
	return e
}

// LookAt inspects the child of p and everything that it started.
func LookAt(p *proc.Process) Evidence {
	_, exited := p.Exited()
	t := processTree{root: p.Pid(), members: proc.NewFinder().Members(p), exited: exited}
	p.Ends(
		func(fd int) { t.input = identify(fd) },
		func(fd int) { t.outputs = append(t.outputs, identify(fd)) },
	)
	return inspect(t)
}

// A look is the state of one inspection.
type look struct {
	deadline time.Time
	partial  bool // something was not seen
}

func (l *look) late() bool {
	if time.Now().Before(l.deadline) {
		return false
	}
	l.partial = true
	return true
}

// process inspects one process. It reports false if the process has ended or is
// hidden.
func (l *look) process(pid int) (Process, bool) {
	if l.late() {
		return Process{}, false
	}
	s, ok := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	if !ok {
		return Process{}, false
	}
	p := Process{PID: pid, Parent: s.parent, Name: s.name, State: s.state}
	if s.state == StateZombie || s.state == StateDead {
		return p, true
	}
	for _, tid := range l.threads(pid) {
		t, ok := readStat(fmt.Sprintf("/proc/%d/task/%d/stat", pid, tid))
		if !ok {
			continue
		}
		p.Threads = append(p.Threads, l.thread(pid, tid, t))
		if l.late() {
			break
		}
	}
	return p, true
}

// threads returns the threads of a process, the main thread first.
func (l *look) threads(pid int) []int {
	dir, err := os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxThreads + 1)
	tids := []int{pid}
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil && tid != pid {
			tids = append(tids, tid)
		}
	}
	if len(tids) > maxThreads {
		tids, l.partial = tids[:maxThreads], true
	}
	return tids
}

// thread inspects one thread: the call it waits in, and the files of the call.
func (l *look) thread(pid, tid int, s stat) Thread {
	t := Thread{State: s.state}
	if s.state != StateAsleep && s.state != StateDisk {
		return t
	}
	dir := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
	call, ok := readCall(dir + "syscall")
	if ok {
		known := calls[call.number]
		t.Call, t.Name = known.kind, known.name
		switch {
		case t.Name == "":
			t.Name = fmt.Sprintf("system call %d", call.number)
		case t.Call == CallRead || t.Call == CallWrite:
			t.Files = l.files(pid, s, int(int32(call.args[0])))
		case t.Call == CallPoll:
			t.Files = l.files(pid, s, watched(pid, call)...)
		case t.Call == CallChild:
			t.Child = childOf(pid, waitedFor(known.name, call))
		}
	}
	if t.Call != CallUnknown {
		return t
	}
	t.Place = place(dir)
	t.guess(t.Place)
	if !ok {
		l.partial = l.partial || t.Place == ""
	}
	switch { // the call is not known: conclude from the state
	case t.Call == CallRead:
		t.Files = l.files(pid, s, 0)
	case t.Call == CallWrite:
		t.Files = l.files(pid, s, 1)
	}
	return t
}

// childOf returns child if it is the pid of a child. A process in a sandbox has other
// pids for its children.
func childOf(pid, child int) int {
	if s, ok := readStat(fmt.Sprintf("/proc/%d/stat", child)); !ok || s.parent != pid {
		return 0
	}
	return child
}

// places maps functions of the kernel in which threads wait to kinds of calls.
var places = map[string]Call{
	"pipe_read": CallRead, "anon_pipe_read": CallRead, "pipe_wait": CallRead, "n_tty_read": CallRead,
	"pipe_write": CallWrite, "anon_pipe_write": CallWrite, "n_tty_write": CallWrite,
	"do_wait": CallChild, "kernel_waitid": CallChild,
	"hrtimer_nanosleep": CallSleep, "do_nanosleep": CallSleep, "common_nsleep": CallSleep,
	"ep_poll": CallPoll, "do_epoll_wait": CallPoll, "do_sys_poll": CallPoll, "do_select": CallPoll, "poll_schedule_timeout": CallPoll,
	"futex_wait_queue": CallLock, "futex_wait_queue_me": CallLock, "__futex_wait": CallLock, "futex_do_wait": CallLock,
	"sigsuspend": CallSignal, "do_sigtimedwait": CallSignal,
	"inet_csk_accept": CallNetwork, "unix_stream_read_generic": CallNetwork, "__skb_wait_for_more_packets": CallNetwork,
}

func (t *Thread) guess(place string) { t.Call = places[place] }

// place is the function of the kernel in which a thread waits, or empty.
func place(dir string) string {
	if b, err := os.ReadFile(dir + "wchan"); err == nil && len(b) > 1 {
		return printable(string(b))
	}
	b, err := os.ReadFile(dir + "stack") // readable for privileged servers only
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	_, name, _ := strings.Cut(line, "] ")
	name, _, _ = strings.Cut(name, "+")
	return printable(name)
}

// stat has the fields of /proc/PID/stat that are used.
type stat struct {
	name     string
	state    State
	parent   int
	terminal FileID
}

func readStat(path string) (stat, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return stat{}, false
	}
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')') // the name may contain anything
	if open < 0 || end < open {
		return stat{}, false
	}
	fields := bytes.Fields(b[end+1:])
	if len(fields) < 5 {
		return stat{}, false
	}
	number := func(i int) int { n, _ := strconv.Atoi(string(fields[i])); return n }
	return stat{
		name: printable(string(b[open+1 : end])), state: State(fields[0][0]), parent: number(1),
		terminal: FileID{Rdev: uint64(uint32(number(4)))},
	}, true
}

// printable makes a name fit into a line of text.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
}
