package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/internal/wording"
	"github.com/tetherexec/tether/wire"
)

// Exit codes of tether commands that end with the exit code of the command they ran, for
// the cases in which that has none. They are those of env(1), timeout(1), ssh(1) and shells.
const (
	exitTimeout       = 124
	exitRefused       = 125 // tether itself failed
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal that ended the command
	exitLost          = 255 // the session is lost
)

// failed gives an error of tether itself its exit code, for tether commands that otherwise end
// with the exit code of the command they ran.
func failed(err error) error {
	if _, coded := errors.AsType[codedError](err); err == nil || coded {
		return err
	}
	code := exitRefused
	if errors.Is(err, client.ErrSessionLost) {
		code = exitLost
	}
	return codedError{code, err}
}

// remoteStartFailure gives the error of a server that did not start a command its exit
// code. A missing working directory is an error of tether, not of the command.
func remoteStartFailure(program string, err error) error {
	refusal, ok := errors.AsType[*client.ServerError](err)
	switch {
	case !ok || refusal.Code != wire.CodeInternal || refusal.OSError() == 0:
		return failed(err)
	case strings.Contains(refusal.Message, "working directory"):
		return failed(&advisedError{err, refusal.Error() + "; choose one with --cwd"})
	}
	text, number := refusal.Error(), refusal.OSError()
	if !strings.Contains(refusal.Message, "program ") { // the server sent only the system's error
		text = program + ": " + wording.Text(refusal.Message)
		if number == syscall.ENOENT && !strings.Contains(program, "/") {
			text = program + ": not found in PATH, or the working directory does not exist"
		}
	}
	return notStarted(number, &advisedError{err, text})
}

// notStarted is the exit code for an error of the system about a command.
func notStarted(number syscall.Errno, err error) error {
	switch number {
	case syscall.ENOENT:
		return codedError{exitNotFound, err}
	case syscall.EACCES:
		err = &advisedError{err, err.Error() + "; is it a program that may be executed (chmod +x)?"}
	}
	return codedError{exitNotExecutable, err}
}

// ofCommand returns the error with which tether ends, for the exit code of a command.
func ofCommand(code int) error {
	if code < 0 { // unknown
		code = exitError
	}
	if code == 0 {
		return nil
	}
	return codedError{code: code & 0xff}
}

// endingError returns the error with which tether ends after it has shown the output of a
// command: the exit code, and the message if there is one.
func endingError(e terminal.Ending) error {
	switch s, signal := errors.AsType[terminal.SignalError](e.Left); {
	case signal && errors.Is(e.Left, terminal.ErrUnreachable):
		return codedError{signaled(s).code, terminal.ErrUnreachable}
	case signal:
		return signaled(s)
	case e.Timeout:
		return codedError{exitTimeout, e.Err}
	case e.Output != nil:
		return codedError{exitRefused, e.Output}
	case errors.Is(e.Err, client.ErrGap):
		return codedError{exitRefused, e.Err}
	case e.Err != nil:
		return codedError{exitLost, e.Err}
	case e.Failure != "":
		return codedError{exitLost, errors.New(e.Failure)}
	case !e.Exited:
		return codedError{exitLost, errors.New("the server did not report the exit code of the command")}
	}
	return ofCommand(e.Code)
}

// parseEscape reads the value of --escape.
func parseEscape(text string) (*terminal.Escape, error) {
	keys, err := terminal.ParseEscape(text)
	if err != nil {
		return nil, usageError{fmt.Errorf("--escape: %w", err)}
	}
	return keys, nil
}
