package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// If a server reports only the system's error, the exit code follows from it, and the text names
// the command.
func TestRemoteStartFailure(t *testing.T) {
	t.Parallel()
	for _, try := range []struct {
		program, message string
		code             int
		want             string
	}{
		{"make", "No such file or directory (os error 2)", exitNotFound, "make: not found in PATH, or the working directory does not exist"},
		{"./make", "No such file or directory (os error 2)", exitNotFound, "./make: no such file or directory"},
		{"./make", "Permission denied (os error 13)", exitNotExecutable, "./make: permission denied; is it a program that may be executed (chmod +x)?"},
		{"./make", "Exec format error (os error 8)", exitNotExecutable, "./make: exec format error"},
		{"make", "limit reached: 4096 processes", exitRefused, "start: limit reached: 4096 processes"},
	} {
		refusal := &client.ServerError{Method: wire.MethodProcessStart, Code: wire.CodeInternal, Message: try.message}
		err := remoteStartFailure(try.program, fmt.Errorf("start: %w", refusal))
		coded, ok := errors.AsType[codedError](err)
		if !ok || coded.code != try.code || err.Error() != try.want || !errors.Is(err, error(refusal)) {
			t.Errorf("%s, %s: %v, code %d", try.program, try.message, err, coded.code)
		}
	}
}
