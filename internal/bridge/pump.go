package bridge

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/websocket"
)

const (
	// pumpBuffer is all that is held of a message, in each direction: longer ones
	// go through in pieces.
	pumpBuffer = 64 << 10

	// farewellTime is how long the server may take to send what it still has for a
	// client that has ended its input.
	farewellTime = 5 * time.Second
)

// errClientGone says that nobody reads what is written to the client.
var errClientGone = errors.New("the client is gone")

// pump carries messages between a client that speaks in lines and the WebSocket of
// a server, until one of them ends. Each direction moves on its own, and only as
// fast as its reader reads. The end of the client's input is a goodbye to the
// server, which keeps the session; what it has already answered still comes through.
//
// The server's pings are not answered. The bridge may well be there when the link
// behind it is dead, and then somebody who resumes the session must get it: only
// what the client itself says is a sign of life.
func pump(stdin io.Reader, stdout io.Writer, conn net.Conn, in *bufio.Reader) error {
	sent, received := make(chan error, 1), make(chan error, 1)
	go func() { sent <- sendLines(stdin, conn) }()       // ends with the input or the connection, or is left to the end of the process
	go func() { received <- receiveLines(in, stdout) }() // ends with the connection, or likewise
	defer conn.Close()
	select {
	case err := <-received:
		return endOf(err)
	case err := <-sent:
		if err == nil {
			err = sayGoodbye(conn)
		}
		conn.SetDeadline(time.Now().Add(farewellTime))
		select {
		case why := <-received: // the server's reason, if it was the first to leave
			if err != nil {
				return endOf(why)
			}
		case <-time.After(farewellTime):
		}
		return nil
	}
}

// endOf is what to tell about the end of what the server sends.
func endOf(err error) error {
	switch {
	case errors.Is(err, errClientGone):
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the server has ended the connection without a word")
	}
	return fmt.Errorf("the server has ended the connection: %w", err)
}

func sayGoodbye(conn net.Conn) error {
	normal := binary.BigEndian.AppendUint16(nil, rpc.CloseNormal)
	conn.SetWriteDeadline(time.Now().Add(farewellTime))
	_, err := conn.Write(websocket.AppendFrame(nil, websocket.Close, true, true, normal))
	return err
}

// sendLines sends each line as a message, a long one in fragments. Blank lines are
// skipped; a last line without its end is not a message, and the server never sees
// one that is complete. It returns nil at the end of the input, whatever ends it.
func sendLines(stdin io.Reader, conn io.Writer) error {
	in := bufio.NewReaderSize(stdin, pumpBuffer)
	frame := make([]byte, 0, websocket.MaxHeader+pumpBuffer)
	for begun := false; ; {
		part, err := in.ReadSlice('\n')
		ended := err == nil
		if !ended && !errors.Is(err, bufio.ErrBufferFull) {
			return nil
		}
		part = bytes.TrimSuffix(part, []byte("\n"))
		if !begun {
			if part = bytes.TrimLeft(part, " \t\r"); len(part) == 0 {
				continue
			}
		}
		op := websocket.Text
		if begun {
			op = websocket.Continuation
		}
		frame = websocket.AppendFrame(frame[:0], op, ended, true, part)
		if _, err := conn.Write(frame); err != nil {
			return fmt.Errorf("send to the server: %w", err)
		}
		begun = !ended
	}
}

// receiveLines writes each message of the server as a line until the connection
// ends, and returns why.
func receiveLines(in *bufio.Reader, stdout io.Writer) error {
	out := bufio.NewWriterSize(clientWriter{stdout}, pumpBuffer)
	fragmented := false // a message has begun
	for {
		if in.Buffered() == 0 { // nothing follows at once
			if err := out.Flush(); err != nil {
				return err
			}
		}
		h, err := websocket.ReadHeader(in)
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if err := h.Check(false, fragmented); err != nil {
			return errors.Join(fmt.Errorf("it sent a frame that makes no sense: %w", err), out.Flush())
		}
		if h.Op.IsControl() {
			if err := readControl(in, h); err != nil {
				return errors.Join(err, out.Flush())
			}
			continue
		}
		if _, err := io.CopyN(out, in, h.Length); err != nil {
			return err
		}
		if fragmented = !h.Fin; h.Fin {
			if err := out.WriteByte('\n'); err != nil {
				return err
			}
		}
	}
}

// readControl reads a control frame; a goodbye comes back as an error.
func readControl(in io.Reader, h websocket.Header) error {
	payload := make([]byte, h.Length)
	if _, err := io.ReadFull(in, payload); err != nil {
		return err
	}
	if h.Op != websocket.Close {
		return nil
	}
	if len(payload) == 0 {
		return errors.New("it closed the connection without a reason")
	}
	code, reason, err := websocket.ParseClose(payload)
	switch {
	case err != nil:
		return fmt.Errorf("it sent a %w", err)
	case reason == "":
		return fmt.Errorf("close code %d", code)
	}
	return errors.New(reason)
}

// A clientWriter marks errors as the client's.
type clientWriter struct{ io.Writer }

func (w clientWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		err = fmt.Errorf("%w: %w", errClientGone, err)
	}
	return n, err
}
