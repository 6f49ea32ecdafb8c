package observe

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A call is a system call that a thread waits in.
type call struct {
	number int
	args   [6]uint64
}

// knownCall describes a system call that is known by its number.
type knownCall struct {
	kind Call
	name string
}

// calls are the system calls in which programs wait, on every architecture. init
// adds those of one architecture.
var calls = map[int]knownCall{
	unix.SYS_READ: {CallRead, "read"}, unix.SYS_READV: {CallRead, "readv"},
	unix.SYS_SPLICE:   {CallRead, "splice"},
	unix.SYS_WRITE:    {CallWrite, "write"},
	unix.SYS_WRITEV:   {CallWrite, "writev"},
	unix.SYS_SENDFILE: {CallWrite, "sendfile"},
	unix.SYS_PPOLL:    {CallPoll, "ppoll"}, unix.SYS_PSELECT6: {CallPoll, "pselect"},
	unix.SYS_EPOLL_PWAIT: {CallPoll, "epoll_pwait"}, unix.SYS_EPOLL_PWAIT2: {CallPoll, "epoll_pwait2"},
	unix.SYS_NANOSLEEP: {CallSleep, "nanosleep"}, unix.SYS_CLOCK_NANOSLEEP: {CallSleep, "clock_nanosleep"},
	unix.SYS_WAIT4: {CallChild, "wait4"}, unix.SYS_WAITID: {CallChild, "waitid"},
	unix.SYS_ACCEPT4: {CallNetwork, "accept4"}, unix.SYS_CONNECT: {CallNetwork, "connect"},
	unix.SYS_RECVFROM: {CallNetwork, "recvfrom"}, unix.SYS_RECVMSG: {CallNetwork, "recvmsg"},
	unix.SYS_SENDTO: {CallNetwork, "sendto"}, unix.SYS_SENDMSG: {CallNetwork, "sendmsg"},
	unix.SYS_FUTEX: {CallLock, "futex"}, unix.SYS_FLOCK: {CallLock, "flock"}, unix.SYS_FCNTL: {CallLock, "fcntl"},
	unix.SYS_RT_SIGSUSPEND: {CallSignal, "sigsuspend"}, unix.SYS_RT_SIGTIMEDWAIT: {CallSignal, "sigtimedwait"},
	unix.SYS_OPENAT: {CallUnknown, "openat"}, unix.SYS_FSYNC: {CallUnknown, "fsync"},
	unix.SYS_RESTART_SYSCALL: {CallUnknown, "restart_syscall"},
}

// readCall returns the call in which a thread waits. It reports false if that is
// not visible, or if the thread is in none.
func readCall(path string) (call, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return call{}, false
	}
	fields := strings.Fields(string(b))
	if len(fields) < 9 {
		return call{}, false
	}
	var c call
	if c.number, err = strconv.Atoi(fields[0]); err != nil {
		return call{}, false
	}
	number := func(s string) uint64 { n, _ := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64); return n }
	for i := range c.args {
		c.args[i] = number(fields[1+i])
	}
	if stack := number(fields[7]); bits.UintSize == 64 && stack < 1<<32 {
		return call{}, false // a 32-bit program: its calls have other numbers
	}
	return c, true
}

// waitedFor is the child that a thread waits for, if the call names one.
func waitedFor(name string, c call) int {
	if name == "waitid" {
		if c.args[0] != unix.P_PID {
			return 0
		}
		return max(0, int(int32(c.args[1])))
	}
	return max(0, int(int32(c.args[0])))
}

// watched returns the descriptors from which a thread wants to read, for a call that
// waits for several.
func watched(pid int, c call) []int {
	switch calls[c.number].name {
	case "poll", "ppoll":
		return polled(pid, c)
	case "select", "pselect":
		return selected(pid, c)
	}
	return epolled(pid, int(int32(c.args[0])))
}

// polled reads the list of a poll from the memory of the process.
func polled(pid int, c call) (fds []int) {
	const size = 8 // size of an entry: descriptor, events, result
	list := make([]byte, size*int(min(c.args[1], maxWatched)))
	for list = list[:readMemory(pid, c.args[0], list)]; len(list) >= size; list = list[size:] {
		fd := int(int32(binary.NativeEndian.Uint32(list)))
		if events := binary.NativeEndian.Uint16(list[4:]); fd >= 0 && events&unix.POLLIN != 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

// selected reads the set of a select from the memory of the process.
func selected(pid int, c call) (fds []int) {
	const word = bits.UintSize / 8
	count := int(min(c.args[0], unix.FD_SETSIZE))
	set := make([]byte, (count+bits.UintSize-1)/bits.UintSize*word)
	set = set[:readMemory(pid, c.args[1], set)]
	for fd := 0; fd < count && fd/bits.UintSize*word+word <= len(set) && len(fds) < maxWatched; fd++ {
		at := set[fd/bits.UintSize*word:]
		value := uint64(binary.NativeEndian.Uint32(at))
		if word == 8 {
			value = binary.NativeEndian.Uint64(at)
		}
		if value>>(fd%bits.UintSize)&1 != 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}

// epolled asks the system for the descriptors of an epoll instance.
func epolled(pid, fd int) (fds []int) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/fdinfo/%d", pid, fd))
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan() && len(fds) < maxWatched; {
		fields := strings.Fields(lines.Text()) // tfd: 0 events: 19 data: …
		if len(fields) < 4 || fields[0] != "tfd:" {
			continue
		}
		target, err := strconv.Atoi(fields[1])
		events, _ := strconv.ParseUint(fields[3], 16, 32)
		if err == nil && events&unix.EPOLLIN != 0 {
			fds = append(fds, target)
		}
	}
	return fds
}

// readMemory reads a few bytes from another process, and returns how many. The system
// allows that to a user that may see its system calls.
func readMemory(pid int, address uint64, into []byte) int {
	if len(into) == 0 || address == 0 {
		return 0
	}
	local := []unix.Iovec{{Base: &into[0]}}
	local[0].SetLen(len(into))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(into)}}, 0)
	if err != nil {
		return 0
	}
	return n
}
