package tethertest

import (
	"io"
	"testing"
)

// NewLines returns a client that speaks one message per line, such as on the
// standard input and output of a program.
func NewLines(t testing.TB, r io.ReadCloser, w io.WriteCloser) *Client {
	return newClient(t, newLines(r, w))
}
