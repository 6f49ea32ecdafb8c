package terminal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// ErrOutput means that the output of this program cannot be written.
var ErrOutput = errors.New("cannot write the output")

// OutputError wraps an error of the output of this program as ErrOutput.
func OutputError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%w: %w", ErrOutput, err)
}

// An OutputWriter writes to the output of this program. Its errors are ErrOutput.
type OutputWriter struct{ io.Writer }

// Write implements io.Writer.
func (w OutputWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		err = OutputError(err)
	}
	return n, err
}
