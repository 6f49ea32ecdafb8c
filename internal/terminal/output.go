package terminal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// ErrOutput means that our own output takes no more.
var ErrOutput = errors.New("cannot write the output")

// OutputError makes an ErrOutput of an error of our own output.
func OutputError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%w: %w", ErrOutput, err)
}

// An OutputWriter writes to our own output. Its errors are ErrOutput.
type OutputWriter struct{ io.Writer }

// Write implements io.Writer.
func (w OutputWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		err = OutputError(err)
	}
	return n, err
}
