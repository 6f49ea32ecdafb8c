package proc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tetherexec/tether/internal/oserr"
)

// Errors of a start that was refused before the system was asked. The texts are
// part of the protocol.
var (
	ErrNoProgram      = errors.New("missing program for pipe spawn")
	ErrNoProgramPTY   = errors.New("missing program for PTY spawn")
	ErrNulArgument    = errors.New("nul byte found in provided data")
	ErrNulEnvironment = errors.New("data provided contains a nul byte")
)

var (
	// ErrStartTimeout means that the system did not report within [startLimit]
	// whether the program could be executed.
	ErrStartTimeout = fmt.Errorf("process did not start within %v", startLimit)
	// ErrClosed means that the supervisor has been closed.
	ErrClosed = errors.New("supervisor is closed")
	// ErrUnsupported means that this system cannot run processes yet.
	ErrUnsupported = errors.New("processes are not supported on this system yet")

	// ErrStdinClosed means that no process reads the input: the process has no
	// stdin, has closed it, or has exited.
	ErrStdinClosed = errors.New("stdin is closed")
	// ErrTerminated means that the process is being terminated and takes no more input.
	ErrTerminated = errors.New("process was terminated")
	// ErrNoEOF means that the terminal is in a mode without an end-of-file
	// character.
	ErrNoEOF = errors.New("terminal is in raw mode, which has no end of file")
	// ErrNotTTY means that the process does not run on a terminal.
	ErrNotTTY = errors.New("process has no terminal")
)

// A StartError is an error of the operating system. Its text begins with the
// system's own ("No such file or directory (os error 2)") and then says what it was
// about.
type StartError struct {
	Err    error  // usually a [syscall.Errno]
	Detail string // what the error was about; may be empty
}

func (e *StartError) Error() string {
	if e.Detail == "" {
		return oserr.Text(e.Err)
	}
	return oserr.Text(e.Err) + ": " + e.Detail
}

func (e *StartError) Unwrap() error { return e.Err }

// check refuses strings that cannot be passed to a system call.
func (s *Spec) check() error {
	if len(s.Argv) == 0 || s.Argv[0] == "" {
		if s.TTY {
			return ErrNoProgramPTY
		}
		return ErrNoProgram
	}
	texts := append([]string{s.Dir}, s.Argv...)
	if s.Arg0 != nil {
		texts = append(texts, *s.Arg0)
	}
	if hasNul(texts) {
		return ErrNulArgument
	}
	if hasNul(s.Env) {
		return ErrNulEnvironment
	}
	return nil
}

func hasNul(texts []string) bool {
	for _, text := range texts {
		if strings.IndexByte(text, 0) >= 0 {
			return true
		}
	}
	return false
}
