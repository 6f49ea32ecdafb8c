package probe

import (
	"fmt"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

var signalAttacks = []probe{
	{"kill-all", "", func([]string) error { return unix.Kill(-1, 0) }},
	{"raise", "SIG", raise},
	{"wait-signal", "SIG", waitSignal},
}

// raise sends itself a signal with the default disposition, as in a program
// that does not handle signals. It leaves no core file.
func raise(args []string) error {
	sig, err := signalNumber(args[0])
	if err != nil || sig == 0 {
		return errUsage
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return at("prctl", err)
	}
	if sig != unix.SIGKILL && sig != unix.SIGSTOP {
		if err := restoreDefault(sig); err != nil {
			return err
		}
	}
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), sig); err != nil {
		return err
	}
	fmt.Println("survived") // the signal is ignored by default, or this is process 1
	return errQuiet
}

// restoreDefault takes a signal away from the Go runtime, and unblocks it in this
// thread.
func restoreDefault(sig unix.Signal) error {
	var action [4]uint64 // struct sigaction of the kernel: SIG_DFL, no flags, no mask
	const maskSize = 8
	if errno := raw(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, maskSize); errno != 0 {
		return at("rt_sigaction", errno)
	}
	var only unix.Sigset_t
	bits := 8 * unsafe.Sizeof(only.Val[0])
	only.Val[uintptr(sig-1)/bits] |= 1 << (uintptr(sig-1) % bits)
	return at("rt_sigprocmask", unix.PthreadSigmask(unix.SIG_UNBLOCK, &only, nil))
}

// waitSignal prints a line when it waits, and the signal that it gets.
func waitSignal(args []string) error {
	sig, err := signalNumber(args[0])
	if err != nil || sig == 0 {
		return errUsage
	}
	came := make(chan os.Signal, 1)
	signal.Notify(came, sig)
	defer signal.Stop(came)
	fmt.Println("ready")
	<-came
	fmt.Println("got", unix.SignalName(sig))
	return errQuiet
}
