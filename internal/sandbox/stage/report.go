package stage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"github.com/tetherexec/tether/internal/proc"
)

// A report is one message to the server. Its first byte is the kind.
const (
	reportReady  = 'R' // about to execute; with descriptors of this process and of the first one
	reportExec   = 'E' // the command cannot be executed: error number, then the detail
	reportBroken = 'B' // the sandbox is not as planned: why

	// Reports of the stage of package native.
	ReportNative = 'N' // about to execute; with a descriptor of this process, and the listeners
	ReportStep   = 'S' // a step failed: seven bytes that are 0, error number and address in 64 bits each
)

// maxReport bounds a report.
const maxReport = 4 << 10

// ErrBroken means that a sandbox was made but is not as planned.
var ErrBroken = errors.New("the sandbox is not what it should be")

// A StepError is a step of a native sandbox that has failed.
type StepError struct {
	Errno   syscall.Errno
	Address uint64 // of the step in its script
}

func (e *StepError) Error() string {
	return fmt.Sprintf("the step at %#x of a native sandbox failed: %v", e.Address, e.Errno)
}
func (e *StepError) Unwrap() error { return e.Errno }

// reportOf encodes the reason why the command was not executed.
func reportOf(err error) []byte {
	var b []byte
	if start, ok := errors.AsType[*proc.StartError](err); ok {
		if errno, ok := errors.AsType[syscall.Errno](start.Err); ok {
			b = binary.AppendUvarint([]byte{reportExec}, uint64(errno))
			b = append(b, start.Detail...)
		}
	}
	if b == nil {
		b = append([]byte{reportBroken}, err.Error()...)
	}
	return b[:min(len(b), maxReport)]
}

// parseReport returns true if the command is about to be executed, or an error
// that says why it is not.
func parseReport(b []byte) (ready bool, err error) {
	if len(b) == 0 {
		return false, fmt.Errorf("%w: an empty report", ErrBroken)
	}
	switch b[0] {
	case reportReady, ReportNative:
		return true, nil
	case reportExec:
		errno, n := binary.Uvarint(b[1:])
		if n <= 0 || errno == 0 || errno > 4095 {
			return false, fmt.Errorf("%w: an unreadable report", ErrBroken)
		}
		return false, &proc.StartError{Err: syscall.Errno(errno), Detail: string(b[1+n:])}
	case ReportStep:
		if len(b) != 24 {
			return false, fmt.Errorf("%w: an unreadable report", ErrBroken)
		}
		return false, &StepError{syscall.Errno(binary.LittleEndian.Uint64(b[8:])), binary.LittleEndian.Uint64(b[16:])}
	case reportBroken:
		return false, fmt.Errorf("%w: %s", ErrBroken, b[1:])
	}
	return false, fmt.Errorf("%w: an unknown report", ErrBroken)
}
