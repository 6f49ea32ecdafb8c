//go:build amd64 || arm64

package keep

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ignoredAtStart has the signals of a terminal that were ignored when this program was started: by nohup, or by a shell that has
// started it in the background. A keeper goes on ignoring them. They are looked up while packages are initialized, before a part of
// the program changes them.
var ignoredAtStart = func() map[unix.Signal]bool {
	ignored := map[unix.Signal]bool{}
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		const ignore = 1 // SIG_IGN
		var now action
		if swapAction(sig, nil, &now); now[0] == ignore {
			ignored[sig] = true
		}
	}
	return ignored
}()

// An action is the kernel's struct sigaction. It begins with the handler; the zero value is the default.
type action [4]uint64

// swapAction sets what a signal does, and returns what it has done before. Both may be nil.
func swapAction(sig unix.Signal, set, before *action) {
	const setSize = 8 // bytes of a set of signals
	syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(before)), setSize, 0, 0)
}

// suspend stops the worker and then the keeper, and returns when SIGCONT has continued the keeper and it has continued the worker. The
// worker is in another session, so a terminal stops the keeper only. The time between the two does not count for timers and deadlines.
//
// If the shell that has started the server cannot continue it, because there is none, SIGTSTP has no effect.
func (k *keeper) suspend() {
	begin := now()
	if k.worker.pid != 0 {
		unix.PidfdSendSignal(k.worker.pidfd, unix.SIGSTOP, nil, 0)
	}
	var caught action
	swapAction(unix.SIGTSTP, new(action), &caught)
	unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP) // returns after SIGCONT
	swapAction(unix.SIGTSTP, &caught, nil)
	if k.worker.pid != 0 {
		unix.PidfdSendSignal(k.worker.pidfd, unix.SIGCONT, nil, 0)
	}
	k.now = now()
	stopped := k.now - begin
	for _, p := range k.peers() {
		delay(&p.deadline, stopped)
	}
	for i := range k.due {
		delay(&k.due[i], stopped)
	}
}

// delay makes a timer later, if it is set.
func delay(at *int, by int) {
	if *at != 0 {
		*at += by
	}
}

// continueWithoutKeeper lets the kernel continue this worker when its keeper is killed while both are stopped. SIGTERM, which the kernel
// sends as well, would wait otherwise.
func continueWithoutKeeper() {
	go func() { // ends with the process
		runtime.LockOSThread() // a thread of its own: each thread has one such signal, and the main thread has SIGTERM
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGCONT), 0, 0, 0)
		select {}
	}()
}
