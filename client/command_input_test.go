//go:build unix

package client

import (
	"io"
	"testing"
)

// The output of a command that has ended well is read, although it can no longer be written to.
func TestOutputOfEndedTransportCommand(t *testing.T) {
	t.Parallel()
	d, err := commandDialer(TransportCommand{Argv: []string{"echo", "hello"}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := d.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	<-stream.(unlimitedStream).Stream.(*commandStream).ended
	if err := stream.Write([]byte("{}\n")); err != nil {
		t.Errorf("write: %v", err)
	}
	if line, err := stream.Read(); string(line) != "hello" || err != nil {
		t.Errorf("read %q, %v", line, err)
	}
	if _, err := stream.Read(); err != io.EOF {
		t.Errorf("read at the end: %v", err)
	}
}
