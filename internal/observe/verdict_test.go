package observe

import (
	"strings"
	"testing"
)

var (
	stdin  = FileID{Dev: 1, Ino: 10}
	stdout = FileID{Dev: 1, Ino: 11}
	other  = FileID{Dev: 1, Ino: 12}
)

func pipe(fd int, id FileID, holders ...Holder) File {
	return File{FD: fd, Kind: FilePipe, ID: id, Holders: holders}
}

// in is a process with one thread that waits in a call.
func in(pid, parent int, name string, call Call, files ...File) Process {
	return Process{PID: pid, Parent: parent, Name: name, State: StateAsleep,
		Threads: []Thread{{State: StateAsleep, Call: call, Name: "call", Files: files}}}
}

func inState(pid, parent int, name string, s State) Process {
	p := Process{PID: pid, Parent: parent, Name: name, State: s}
	if s != StateZombie {
		p.Threads = []Thread{{State: s}}
	}
	return p
}

func threads(p Process, more ...Thread) Process {
	p.Threads = append(p.Threads, more...)
	return p
}

func TestDecide(t *testing.T) {
	shell := in(1, 0, "sh", CallChild)
	socket, event := File{FD: 5, Kind: FileSocket, ID: FileID{Dev: 2, Ino: 1}}, File{FD: 6, Kind: FileInternal}
	for _, tt := range []struct {
		name string
		e    Evidence
		want Activity
		pid  int
		hold int
		text string
	}{
		{"nothing was seen", Evidence{Looked: true}, Unknown, 0, 0, "it could not be inspected"},
		{"another system", Evidence{}, Running, 0, 0, "it runs; this system does not show what it is doing"},
		{"reads input", Evidence{Processes: []Process{in(1, 0, "cat", CallRead, pipe(0, stdin))}},
			WaitingForInput, 1, 0, "cat (pid 1) waits for input on stdin"},
		{"reads input on another descriptor", Evidence{Processes: []Process{in(1, 0, "cat", CallRead, pipe(7, stdin))}},
			WaitingForInput, 1, 0, "cat (pid 1) waits for input on stdin"},
		{"a child reads input", Evidence{Processes: []Process{shell, in(2, 1, "cat", CallRead, pipe(0, stdin))}},
			WaitingForInput, 2, 0, "cat (pid 2) waits for input on stdin"},
		{"input explains more than work in the background", Evidence{Processes: []Process{in(1, 0, "sh", CallRead, pipe(0, stdin)), inState(2, 1, "make", StateOnCPU)}},
			WaitingForInput, 1, 0, "sh (pid 1) waits for input on stdin"},
		{"polls input and its own events", Evidence{Processes: []Process{in(1, 0, "node", CallPoll, event, pipe(0, stdin))}},
			WaitingForInput, 1, 0, "node (pid 1) waits for input on stdin"},
		{"polls input and a socket", Evidence{Processes: []Process{in(1, 0, "ssh", CallPoll, socket, event, pipe(0, stdin))}},
			WaitingForEvents, 1, 0, "ssh (pid 1) waits for events of: stdin, a socket"},
		{"polls nothing that is known", Evidence{Processes: []Process{in(1, 0, "x", CallPoll)}},
			WaitingForEvents, 1, 0, "x (pid 1) waits for events"},
		{"writes what is not taken", Evidence{Blocked: true, Processes: []Process{shell, in(2, 1, "yes", CallWrite, pipe(1, stdout))}},
			OutputNotRead, 2, 0, "yes (pid 2) is blocked: its client does not read its output"},
		{"held back, by whatever way it writes", Evidence{Blocked: true, Processes: []Process{in(1, 0, "x", CallPoll)}},
			OutputNotRead, 0, 0, "it is blocked: its client does not read its output"},
		{"writes what is taken", Evidence{Processes: []Process{in(1, 0, "yes", CallWrite, pipe(1, stdout))}},
			Running, 1, 0, "yes (pid 1) runs; no reason to wait was found"},
		{"a full pipe", Evidence{Processes: []Process{shell, in(2, 1, "yes", CallWrite, pipe(1, other, Holder{3, "sleep"})), in(3, 1, "sleep", CallSleep)}},
			BlockedOnPipe, 2, 3, "yes (pid 2) is blocked writing to a full pipe held by sleep (pid 3); sleep sleeps for a time"},
		{"a full pipe of a shell and its child", Evidence{Processes: []Process{shell, in(2, 1, "yes", CallWrite, pipe(1, other, Holder{1, "sh"}, Holder{3, "sleep"})), in(3, 1, "sleep", CallSleep)}},
			BlockedOnPipe, 2, 3, "yes (pid 2) is blocked writing to a full pipe held by sleep (pid 3) and 1 more; sleep sleeps for a time"},
		{"an empty pipe of two", Evidence{Processes: []Process{in(2, 1, "cat", CallRead, pipe(0, other, Holder{3, "a"}, Holder{4, "b"}))}},
			BlockedOnPipe, 2, 3, "cat (pid 2) waits for data from a pipe held by a (pid 3) and 1 more"},
		{"a pipe whose other end was not found", Evidence{Processes: []Process{in(2, 1, "cat", CallRead, pipe(0, other))}},
			BlockedOnPipe, 2, 0, "cat (pid 2) waits for data from a pipe; the process at the other end was not found"},
		{"work explains more than a pipe", Evidence{Processes: []Process{shell, in(2, 1, "yes", CallWrite, pipe(1, other, Holder{3, "x"})), inState(3, 1, "x", StateOnCPU)}},
			UsingCPU, 3, 0, "x (pid 3) uses the CPU"},
		{"stopped", Evidence{Root: 1, Processes: []Process{inState(1, 0, "sh", StateStopped), inState(2, 1, "x", StateOnCPU)}},
			Stopped, 1, 0, "sh (pid 1) is stopped by a signal"},
		{"a stopped job is not the reason", Evidence{Root: 1, Processes: []Process{shell, inState(2, 1, "vi", StateStopped), inState(3, 1, "cc", StateOnCPU)}},
			UsingCPU, 3, 0, "cc (pid 3) uses the CPU"},
		{"traced", Evidence{Processes: []Process{inState(1, 0, "sh", StateTraced)}}, Stopped, 1, 0, "sh (pid 1) is stopped by a debugger"},
		{"disk", Evidence{Processes: []Process{shell, inState(2, 1, "dd", StateDisk)}}, WaitingForDisk, 2, 0, "dd (pid 2) waits in the kernel, usually for a disk"},
		{"sleep", Evidence{Processes: []Process{shell, in(2, 1, "sleep", CallSleep)}}, Sleeping, 2, 0, "sleep (pid 2) sleeps for a time"},
		{"network", Evidence{Processes: []Process{in(1, 0, "nc", CallNetwork)}}, WaitingOnNetwork, 1, 0, "nc (pid 1) waits on a socket"},
		{"reads a socket", Evidence{Processes: []Process{in(1, 0, "nc", CallRead, socket)}}, WaitingOnNetwork, 1, 0, "nc (pid 1) waits on a socket"},
		{"a thread that works", Evidence{Processes: []Process{threads(in(1, 0, "go", CallLock), Thread{State: StateOnCPU})}}, UsingCPU, 1, 0, "go (pid 1) uses the CPU"},
		{"a thread that reads", Evidence{Processes: []Process{threads(in(1, 0, "go", CallLock), Thread{State: StateAsleep, Call: CallRead, Files: []File{pipe(0, stdin)}})}},
			WaitingForInput, 1, 0, "go (pid 1) waits for input on stdin"},
		{"a child that is hidden", Evidence{Partial: true, Processes: []Process{threads(Process{PID: 1, Name: "sudo", State: StateAsleep}, Thread{State: StateAsleep, Call: CallChild, Child: 9})}},
			WaitingForChild, 1, 9, "sudo (pid 1) waits for its child (pid 9)"},
		{"children that end", Evidence{Processes: []Process{shell, inState(2, 1, "x", StateZombie)}}, WaitingForChild, 1, 0, "sh (pid 1) waits for its children"},
		{"a zombie", Evidence{Processes: []Process{inState(2, 1, "x", StateZombie)}}, Zombie, 2, 0, "x (pid 2) has exited and was not reaped by its parent"},
		{"no permission", Evidence{Processes: []Process{{PID: 1, Name: "su", State: StateAsleep, Threads: []Thread{{State: StateAsleep}}}}},
			Waiting, 1, 0, "su (pid 1) waits in the kernel"},
		{"output is held", Evidence{Exited: true, Holders: []Holder{{7, "daemon"}}, Processes: []Process{in(7, 1, "daemon", CallSleep)}},
			OutputHeld, 0, 7, "it has exited, but daemon (pid 7) holds its output open"},
		{"output is held by a process that was not found", Evidence{Exited: true}, OutputHeld, 0, 0, "it has exited, but its output is still open; the process that holds it was not found"},
	} {
		tt.e.Input, tt.e.Outputs = stdin, []FileID{stdout}
		v := Decide(tt.e)
		if v.Activity != tt.want || v.PID != tt.pid || v.Holder.PID != tt.hold || v.Text != tt.text || v.Partial != tt.e.Partial {
			t.Errorf("%s: %s, pid %d, holder %d, %q; want %s, %d, %d, %q", tt.name, v.Activity, v.PID, v.Holder.PID, v.Text, tt.want, tt.pid, tt.hold, tt.text)
		}
		if len(v.Seen) != len(tt.e.Processes) || tt.pid != 0 && v.Seen[0].PID != tt.pid {
			t.Errorf("%s: evidence %+v", tt.name, v.Seen)
		}
	}
}

// Without an input of the server no process waits for it: the zero FileID matches no
// file.
func TestDecideWithoutInput(t *testing.T) {
	v := Decide(Evidence{Processes: []Process{in(1, 0, "cat", CallRead, File{})}})
	if v.Activity != Waiting {
		t.Errorf("%+v", v)
	}
}

func TestEvidenceIsBounded(t *testing.T) {
	e := Evidence{Input: stdin}
	for pid := range 100 {
		e.Processes = append(e.Processes, in(pid+1, 0, "sh", CallSleep))
	}
	e.Processes = append(e.Processes, in(200, 0, "cat", CallRead, pipe(0, stdin)))
	if v := Decide(e); len(v.Seen) != maxSeen || v.Seen[0] != (Sight{200, "cat", "state S, in call fd 0 (its input)"}) {
		t.Errorf("%+v", v.Seen)
	}
}

func TestSights(t *testing.T) {
	many := make([]File, 6)
	e := Evidence{Input: stdin, Outputs: []FileID{stdout}, Processes: []Process{
		{PID: 1, State: StateAsleep, Threads: []Thread{{State: StateAsleep}}},
		{PID: 2, State: StateAsleep, Threads: []Thread{{State: StateAsleep, Place: "do_wait", Call: CallChild}}},
		in(3, 0, "", CallPoll, many...),
		in(4, 0, "", CallRead, pipe(3, other, Holder{9, "x"})),
		inState(5, 0, "", StateStopped),
		in(6, 5, "", CallChild), in(7, 6, "", CallSleep),
	}}
	want := map[int]string{
		1: "state S, system call not visible", 2: "state S, in do_wait",
		3: "state S, in call fd 0 (a file) fd 0 (a file) fd 0 (a file) fd 0 (a file) and 2 more",
		4: "state S, in call fd 3 (a pipe of pid 9)", 5: "state T", 6: "state S, in call, child 7", 7: "state S, in call",
	}
	for _, seen := range Decide(e).Seen {
		if seen.Saw != want[seen.PID] || strings.Contains(seen.Saw, "%!") {
			t.Errorf("%d: %q, want %q", seen.PID, seen.Saw, want[seen.PID])
		}
	}
}
