package bridge

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"

	"github.com/tetherexec/tether/internal/rpc"
)

// sentBy returns the messages that a server gets for an input, and how they end.
func sentBy(input []byte) (messages []string, end error) {
	ours, theirs := net.Pipe()
	go func() { // ends with the input, or with our end
		sendLines(bytes.NewReader(input), theirs)
		theirs.Close()
	}()
	defer ours.Close()
	server := rpc.NewWebSocket(ours, nil)
	for {
		message, err := server.Read()
		if err != nil {
			return messages, err
		}
		messages = append(messages, string(message))
	}
}

// The server gets the same messages as if it read the lines itself.
func FuzzSendLines(f *testing.F) {
	for _, text := range []string{
		"", "\n", "{}\n", "{}", "a\r\n\r\n \t\n b\nlast", " \n", strings.Repeat("x", 3*pumpBuffer) + "\ny\n",
		strings.Repeat(" ", 2*pumpBuffer) + "x\n", strings.Repeat("x", pumpBuffer) + "\n", strings.Repeat("x", 2*pumpBuffer),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		lines := rpc.NewLines(io.NopCloser(bytes.NewReader(input)), nil)
		var want []string
		for {
			line, err := lines.Read()
			if err != nil {
				break
			}
			want = append(want, strings.TrimSpace(string(line)))
		}
		got, end := sentBy(input)
		for i := range got {
			got[i] = strings.TrimSpace(got[i])
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("sent %.200q, want %.200q", got, want)
		}
		if !errors.Is(end, io.EOF) && !errors.Is(end, io.ErrUnexpectedEOF) {
			if _, refused := errors.AsType[*rpc.CloseError](end); !refused {
				t.Errorf("ended with %v", end)
			}
		}
	})
}

// receivedFrom returns the lines that a client gets for the frames of a server.
func receivedFrom(t *testing.T, sent ...frames.Frame) (string, error) {
	t.Helper()
	var wire, out bytes.Buffer
	for _, frame := range sent {
		if err := frames.Write(&wire, frame); err != nil {
			t.Fatal(err)
		}
	}
	err := receiveLines(bufio.NewReaderSize(&wire, pumpBuffer), &out)
	return out.String(), err
}

func TestReceiveLines(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("x"), 3*pumpBuffer)
	part := func(op byte, last bool, text string) frames.Frame { return frames.New(op, last, []byte(text)) }
	out, err := receivedFrom(t,
		part(frames.OpText, true, `{"a":1}`),
		frames.Ping([]byte("?")),
		part(frames.OpText, false, `{"b`), frames.Ping(nil), part(frames.OpContinuation, true, `":2}`),
		frames.Text(large),
		frames.Close(1008, "enough"),
	)
	if want := "{\"a\":1}\n{\"b\":2}\n" + string(large) + "\n"; out != want {
		t.Errorf("got %.100q …", out)
	}
	if err == nil || endOf(err).Error() != "the server has ended the connection: enough" {
		t.Error(err)
	}
	for name, frame := range map[string]frames.Frame{
		"masked":   frames.Text([]byte("x")).FromClient(),
		"reserved": {Fin: true, Reserved: 4, Op: frames.OpText},
		"unknown":  part(3, true, "x"),
		"stray":    part(frames.OpContinuation, true, "x"),
	} {
		if out, err := receivedFrom(t, frame); out != "" || err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	if _, err := receivedFrom(t, part(8, true, "")); err == nil || !strings.Contains(err.Error(), "without a reason") {
		t.Errorf("a close frame without a code: %v", err)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// If the client is gone, the bridge ends without an error.
func TestPumpEndsWithTheClientsOutput(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer ours.Close()
	stdin, hold := io.Pipe()
	defer hold.Close()
	done := make(chan error, 1)
	go func() { done <- pump(stdin, brokenWriter{}, theirs, bufio.NewReader(theirs)) }()
	if err := frames.Write(ours, frames.Text([]byte("{}"))); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// After the end of the client's input, the last messages of the server are passed on.
func TestPumpWaitsForTheLastAnswers(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer ours.Close()
	var out bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- pump(strings.NewReader("{}\n"), &out, theirs, bufio.NewReader(theirs)) }()
	server := rpc.NewWebSocket(ours, nil)
	if _, err := server.Read(); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Read(); !errors.Is(err, io.EOF) { // a close frame
		t.Fatal(err)
	}
	frames.Write(ours, frames.Text([]byte(`{"id":1}`)))
	frames.Write(ours, frames.New(frames.OpClose, true, nil))
	begin := time.Now()
	if err := <-done; err != nil || out.String() != "{\"id\":1}\n" {
		t.Errorf("%q, %v", &out, err)
	}
	if took := time.Since(begin); took > closeTimeout*9/10 { // the wait began a moment before begin
		t.Errorf("took %v", took)
	}
}
