//go:build amd64 || arm64

package keep

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Probe returns nil if this system has all that a keeper and its worker need, or says what is missing. It takes a
// fraction of a millisecond.
func Probe() error {
	for _, need := range []struct {
		what string
		try  func() error
	}{
		{"process descriptors", probePidfd},
		{"a list of child processes in /proc", probeChildren},
		{"close_range", func() error { return unix.CloseRange(probeRange, probeRange, 0) }},
		{"sockets that pass descriptors", probeSocket},
		{"eventfd", probeEvents},
		{"execution by descriptor", probeExecveat},
		{"splice and sendfile with a memory file", probeMemory},
	} {
		if err := need.try(); err != nil {
			return fmt.Errorf("this system lacks %s: %w", need.what, err)
		}
	}
	return nil
}

const (
	probeRange = 1<<31 - 1 // a number that no descriptor has
	probeSize  = 4096      // of the memory file
)

func probePidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil {
		return err
	}
	// This process is not its own child. A kernel that does not know process descriptors here says EINVAL.
	if err := unix.Waitid(unix.P_PIDFD, fd, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil && err != unix.ECHILD {
		return fmt.Errorf("wait: %w", err)
	}
	return nil
}

func probeChildren() error {
	fd, err := unix.Open(childList, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func probeSocket() error {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	var p packet
	p.fds[0] = int32(ends[0])
	if err := p.send(ends[0], msgHold, 2, 1); err != nil {
		return err
	}
	_, _, fds, err := p.receive(ends[1], unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return err
	}
	if fds != 1 {
		return errors.New("a descriptor did not arrive")
	}
	return unix.Close(int(p.fds[0]))
}

func probeEvents() error {
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Close(bell)
}

// probeExecveat asks for something that cannot be executed; a system call that is missing or forbidden is another error.
func probeExecveat() error {
	name, argv := [1]byte{}, [1]*byte{}
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, ^uintptr(0), uintptr(unsafe.Pointer(&name)),
		uintptr(unsafe.Pointer(&argv)), uintptr(unsafe.Pointer(&argv)), unix.AT_EMPTY_PATH, 0)
	if errno == unix.EBADF {
		return nil
	}
	return errno
}

// probeMemory moves bytes from a pipe to a memory file and back, as output and input are moved.
func probeMemory() error {
	memory, err := unix.MemfdCreate("tether-probe", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return err
	}
	defer unix.Close(memory)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return err
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	if _, err := unix.Write(pipe[1], []byte("probe")); err != nil {
		return err
	}
	if err := unix.Ftruncate(memory, probeSize); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(memory), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	var to, from int64
	if _, err := unix.Splice(pipe[0], nil, memory, &to, probeSize, unix.SPLICE_F_NONBLOCK); err != nil {
		return fmt.Errorf("splice: %w", err)
	}
	if _, err := unix.Sendfile(pipe[1], memory, &from, int(to)); err != nil {
		return fmt.Errorf("sendfile: %w", err)
	}
	if to != from || to == 0 {
		return fmt.Errorf("%d bytes came, %d went", to, from)
	}
	return nil
}
