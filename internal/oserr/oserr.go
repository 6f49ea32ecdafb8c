// Package oserr words errors of the operating system as the protocol does. A
// text that differs from Go's belongs in texts_linux.go.
package oserr

import (
	"errors"
	"fmt"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// Text returns err as the wire shows errors of the system, as in "No such file
// or directory (os error 2)". Other errors keep their own text.
func Text(err error) string {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return err.Error()
	}
	text, ok := texts[errno]
	if !ok {
		text = errno.Error()
	}
	first, size := utf8.DecodeRuneInString(text)
	return fmt.Sprintf("%c%s (os error %d)", unicode.ToUpper(first), text[size:], int(errno))
}
