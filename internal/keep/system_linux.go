//go:build amd64 || arm64

package keep

import (
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
)

// maxWords is the size of the largest message: as many pairs as there may be descriptors.
const maxWords = 1 + 2*maxDescriptors

// A packet is room for one message with its descriptors, and what the kernel needs to know about it. A keeper has one,
// so that no message costs memory.
type packet struct {
	words   [maxWords]int32
	fds     [maxDescriptors]int32
	control struct {
		header unix.Cmsghdr
		fds    [maxDescriptors + 1]int32 // one more for the alignment
	}
	vector unix.Iovec
	header unix.Msghdr
}

const controlHeader = int(unsafe.Sizeof(unix.Cmsghdr{}))

// prepare describes the buffers to the kernel.
func (p *packet) prepare(words, fds int) {
	p.vector.Base = (*byte)(unsafe.Pointer(&p.words))
	p.vector.SetLen(4 * words)
	p.header = unix.Msghdr{Iov: &p.vector, Iovlen: 1}
	if fds > 0 {
		p.header.Control = (*byte)(unsafe.Pointer(&p.control))
		p.header.SetControllen(controlHeader + (4*fds+7)&^7)
	}
}

// send sends the first words as a message of this kind, with the first descriptors. It does not wait.
func (p *packet) send(socket int, k kind, words, fds int) error {
	p.words[0] = int32(k)
	p.prepare(1+words, fds)
	if fds > 0 {
		p.control.header.Level, p.control.header.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
		p.control.header.SetLen(controlHeader + 4*fds)
		copy(p.control.fds[:fds], p.fds[:fds])
	}
	for {
		_, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(socket), uintptr(unsafe.Pointer(&p.header)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// receive takes the next message off the socket. It does not wait. Without an error and without a kind, the
// other side has closed the socket. If there was no room for all descriptors, the rest is lost.
func (p *packet) receive(socket, flags int) (k kind, words, fds int, err error) {
	p.prepare(maxWords, maxDescriptors)
	n, _, errno := unix.Syscall(unix.SYS_RECVMSG, uintptr(socket), uintptr(unsafe.Pointer(&p.header)), uintptr(unix.MSG_DONTWAIT|flags))
	if errno != 0 {
		return 0, 0, 0, errno
	}
	if int(p.header.Controllen) > controlHeader && p.control.header.Type == unix.SCM_RIGHTS {
		fds = (int(p.control.header.Len) - controlHeader) / 4
		copy(p.fds[:fds], p.control.fds[:fds])
	}
	if n < 4 {
		return 0, 0, fds, nil
	}
	return kind(p.words[0]), int(n)/4 - 1, fds, nil
}

// now is the time since boot, without the time in which the machine was suspended.
func now() int {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return int(t.Nano())
}

// The states of a child in the message `exit`.
const (
	stateRunning = 0
	stateEnded   = 1
	stateUnknown = 2 // not a child of the keeper
)

// exitOf returns how a child has ended, with the status as in a shell. With unix.WNOWAIT in flags it does not
// reap the child.
func exitOf(idType, id, flags int) (state, status int) { return exitAndUsage(idType, id, flags, nil) }

// exitAndUsage is exitOf, and tells what a child has used if it has ended; used may be nil.
func exitAndUsage(idType, id, flags int, used *unix.Rusage) (state, status int) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(idType, id, &info, unix.WEXITED|unix.WNOHANG|unix.WALL|flags, used)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return stateUnknown, -1
		}
	}
	details := (*struct { // this part of siginfo_t is missing in x/sys
		_                [4]int32
		pid, uid, status int32
	})(unsafe.Pointer(&info))
	const exited = 1 // CLD_EXITED; otherwise a signal has ended it
	switch {
	case details.pid == 0:
		return stateRunning, -1
	case info.Code != exited:
		return stateEnded, 128 + int(details.status)
	}
	return stateEnded, int(details.status)
}

// usageWords is how many words of the message `exit` have the usage: five numbers of two words each, the lower one first.
const usageWords = 2 * 5

// putUsage adds the usage of a child to a message, from a word on.
func (p *packet) putUsage(word int, used *unix.Rusage) {
	for i, n := range [...]int64{used.Utime.Nano(), used.Stime.Nano(), used.Maxrss, used.Inblock, used.Oublock} {
		p.words[word+2*i], p.words[word+2*i+1] = int32(n), int32(n>>32)
	}
}

// usageIn returns the usage in the fields of a message; nil: it has none.
func usageIn(fields []int32) *account.Figures {
	if len(fields) < usageWords {
		return nil
	}
	number := func(i int) int64 { return int64(fields[2*i+1])<<32 | int64(uint32(fields[2*i])) }
	figures := account.OfRusage(&unix.Rusage{
		Utime: unix.NsecToTimeval(number(0)), Stime: unix.NsecToTimeval(number(1)), Maxrss: number(2), Inblock: number(3), Oublock: number(4),
	})
	return &figures
}

// childList is the kernel's list of the children of the main thread.
const childList = "/proc/thread-self/children"

// children calls visit with the place and the number of each child, oldest first. Children that were adopted
// come after those that the keeper had before.
func (k *keeper) children(visit func(i, pid int)) (count int) {
	fd, err := unix.Open(childList, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		k.say("cannot list the children of the keeper", "errno", errnoOf(err))
		return 0
	}
	defer unix.Close(fd)
	pid := 0
	for {
		n, _ := unix.Read(fd, k.text[:])
		if n <= 0 {
			return count
		}
		for _, c := range k.text[:n] {
			if c >= '0' && c <= '9' {
				pid = 10*pid + int(c-'0')
			} else if pid != 0 {
				visit(count, pid)
				count, pid = count+1, 0
			}
		}
	}
}

// compose makes a line about an error in the form of log/slog: JSON, or text.
func (k *keeper) compose(json bool, message, key string, value int) []byte {
	parts := [...]string{"time=", " level=ERROR msg=\"", "\" ", "=", "\n"}
	if json {
		parts = [...]string{`{"time":"`, `","level":"ERROR","msg":"`, `","`, `":`, "}\n"}
	}
	line := append(k.line[:0], parts[0]...)
	line = time.Now().UTC().AppendFormat(line, "2006-01-02T15:04:05.000Z07:00")
	line = append(append(line, parts[1]...), message...)
	line = append(append(line, parts[2]...), key...)
	line = strconv.AppendInt(append(line, parts[3]...), int64(value), 10)
	return append(line, parts[4]...)
}

// say writes an error to the log. It does not wait for the reader of standard error.
func (k *keeper) say(message, key string, value int) {
	line := k.compose(k.json != 0, message, key, value)
	stderr := [1]unix.PollFd{{Fd: 2, Events: unix.POLLOUT}}
	if n, _ := unix.Poll(stderr[:], 0); n > 0 {
		unix.Write(2, line)
	}
}

// post is say, and writes the error into the file for notices as well, which is for people.
func (k *keeper) post(message, key string, value int) {
	k.say(message, key, value)
	if k.notice >= 0 {
		line := k.compose(false, message, key, value)
		unix.Ftruncate(k.notice, 0)
		unix.Pwrite(k.notice, line, 0)
	}
}

func errnoOf(err error) int {
	if errno, ok := err.(unix.Errno); ok {
		return int(errno)
	}
	return -1
}
