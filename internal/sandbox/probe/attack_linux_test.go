package probe

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// attackTable adds the probes that only tests use to the table. As a variable it is initialized before
// the init function that runs a probe, so the program of these tests can be started as `be-child probe NAME …`.
var attackTable = addAttacks(
	socketAttacks, unixAttacks, reachAttacks, fileAttacks, mountAttacks, namespaceAttacks, nestedAttacks,
	processAttacks, signalAttacks, ipcAttacks, kernelAttacks, abiAttacks, ttyAttacks, factAttacks, viewAttacks,
)

func addAttacks(tables ...[]probe) []probe {
	attacks := slices.Concat(tables...)
	probes = append(probes, attacks...)
	return attacks
}

// last runs the script and returns the error of its last step, or of the step
// that ended it early.
func (s *script) last() error {
	results, err := s.run()
	if err != nil {
		return err
	}
	if err := s.stoppedBy(results); err != nil {
		return err
	}
	return errnoOr(results[len(results)-1].errno)
}

// stoppedBy returns the error of the step that ended the script before the
// last step.
func (s *script) stoppedBy(results []result) error {
	for i, r := range results[:len(results)-1] {
		if s.calls[i].must && r.errno != 0 {
			return at(s.calls[i].name, r.errno)
		}
	}
	return nil
}

// reached is for calls that cannot succeed with their arguments: the kernel
// returns one of these errnos after it has checked the caller's permission.
func reached(err error, refusals ...unix.Errno) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok && slices.Contains(refusals, errno) {
		return nil
	}
	return err
}

// raw makes a system call. The pointers among args must be converted in the call
// expression, as for unix.Syscall.
//
//go:uintptrescapes
func raw(nr uintptr, args ...uintptr) unix.Errno {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	return errno
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // the written data is not needed
	}
}
