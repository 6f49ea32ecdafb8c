package unifiedexec

import (
	"errors"
	"fmt"

	"github.com/tetherexec/tether/client"
)

// Kinds of errors, to look for with errors.Is.
var (
	// ErrArguments means that the arguments of a call are malformed or not allowed.
	ErrArguments = errors.New("bad arguments")

	// ErrCreateProcess means that the command could not be started or, if the error is
	// also a client.ErrAmbiguous, that it is unknown whether it was.
	ErrCreateProcess = errors.New("process was not created")

	// ErrProcessFailed means that the process was lost: it is unknown how it ended.
	ErrProcessFailed = errors.New("process was lost")

	// ErrUnknownSession means that there is no such session, or not any more.
	ErrUnknownSession = errors.New("unknown session")

	// ErrWriteStdin means that the process takes no more input.
	ErrWriteStdin = errors.New("standard input was not written")

	// ErrStdinClosed means that the session was started without a terminal.
	ErrStdinClosed = errors.New("standard input is closed")

	// ErrRejected means that a rule, the policy or the user has refused the command.
	ErrRejected = errors.New("rejected")

	// ErrInterrupted means that the user wants the turn to end. The model gets no result.
	ErrInterrupted = errors.New("interrupted by the user")

	// ErrClosed means that the manager was closed, which has ended its commands.
	ErrClosed = errors.New("unified exec is closed")
)

// The names of the tools.
const (
	ToolExecCommand = "exec_command"
	ToolWriteStdin  = "write_stdin"
)

// A ToolError is a call that failed. Its text is for the model.
type ToolError struct {
	Tool    string // whose call failed; empty: the arguments were refused, and the text is the message alone
	Kind    error  // ErrArguments or another error above
	Message string
	Cause   error // may be nil
}

func (e *ToolError) Error() string {
	if e.Tool == "" {
		return e.Message
	}
	return e.Tool + " failed: " + e.Message
}

// Unwrap makes errors.Is find the kind and the cause.
func (e *ToolError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

func badArguments(format string, args ...any) error {
	return &ToolError{Kind: ErrArguments, Message: fmt.Sprintf(format, args...)}
}

func notCreated(cause error) error {
	return &ToolError{Tool: ToolExecCommand, Kind: ErrCreateProcess, Message: "Failed to create unified exec process: " + cause.Error(), Cause: cause}
}

// howToFindOut is added to the error of a command that may have run, wholly or in part.
// Otherwise the model might think that it did not, and run it again.
const howToFindOut = "before you run it again, look for its effects with another command: files it would have written, processes it would have left (`ps`)"

// maybeCreated is notCreated for an error after which the process may exist: then the text says
// how to find out. process is its id on the executor.
func maybeCreated(cause error, process string) error {
	err := notCreated(cause)
	if e, ok := errors.AsType[*ToolError](err); ok && errors.Is(cause, client.ErrAmbiguous) {
		e.Message += fmt.Sprintf(". The command may have run, or may be running: %s. "+
			"If it was started, the executor calls it %s, and `tether logs %[2]s` prints its output as long as it is kept", howToFindOut, process)
	}
	return err
}

func rejected(reason string) error {
	return &ToolError{Tool: ToolExecCommand, Kind: ErrRejected, Message: reason}
}

// processFailed is the error of a process whose end is not known.
func processFailed(tool string, cause error) error {
	return &ToolError{Tool: tool, Kind: ErrProcessFailed, Cause: cause,
		Message: "Unified exec process failed: " + cause.Error() + ". The command was started, and it is unknown how it ended: " + howToFindOut}
}

// unknownSession is the error for an id without a session, with the reason if it is known.
func unknownSession(id int, why string) error {
	text := fmt.Sprintf("Unknown process id %d", id)
	if why != "" {
		text += ": " + why
	}
	return &ToolError{Tool: ToolWriteStdin, Kind: ErrUnknownSession, Message: text}
}
