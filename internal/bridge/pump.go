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
	// pumpBuffer is how many bytes of a message are in memory, in each direction. Longer
	// messages are passed on in pieces.
	pumpBuffer = 64 << 10

	// closeTimeout is how long the server may take to send its last messages after the client
	// has ended its input.
	closeTimeout = 5 * time.Second
)

// errClientGone means that the client does not read its output any more.
var errClientGone = errors.New("the client is gone")

// pump passes messages between a client that speaks in lines and the WebSocket of a server,
// until one of them ends. The two directions are independent, and each is only as fast as its
// reader. At the end of the client's input, pump sends a close frame; the server keeps the
// session, and its last answers are still passed on.
//
// The server's pings are not answered. The link between the bridge and its client may be dead
// while the bridge still runs; then another connection must be able to resume the session. So
// only messages of the client itself are signs of life.
func pump(stdin io.Reader, stdout io.Writer, conn net.Conn, in *bufio.Reader) error {
	sent, received := make(chan error, 1), make(chan error, 1)
	go func() { sent <- sendLines(stdin, conn) }()       // ends with the input or the connection, or with this process
	go func() { received <- receiveLines(in, stdout) }() // ends with the connection, or with this process
	defer conn.Close()
	select {
	case err := <-received:
		return endOf(err)
	case err := <-sent:
		if err == nil {
			err = sendClose(conn)
		}
		conn.SetDeadline(time.Now().Add(closeTimeout))
		select {
		case why := <-received: // the server's reason, if it has ended the connection first
			if err != nil {
				return endOf(why)
			}
		case <-time.After(closeTimeout):
		}
		return nil
	}
}

// endOf is the error of the bridge for the end of the server's messages; nil: the client has ended.
func endOf(err error) error {
	switch {
	case errors.Is(err, errClientGone):
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the server has ended the connection without a reason")
	}
	return fmt.Errorf("the server has ended the connection: %w", err)
}

func sendClose(conn net.Conn) error {
	normal := binary.BigEndian.AppendUint16(nil, rpc.CloseNormal)
	conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	_, err := conn.Write(websocket.AppendFrame(nil, websocket.Close, true, true, normal))
	return err
}

// sendLines sends each line as a message, a long line in fragments. Blank lines are skipped. A
// last line without a line end is not a message: the server never gets its last fragment. It
// returns nil at the end of the input, also if that is an error.
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
			return errors.Join(fmt.Errorf("it sent a malformed frame: %w", err), out.Flush())
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

// readControl reads a control frame. A close frame is returned as an error.
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

// A clientWriter wraps errors in errClientGone.
type clientWriter struct{ io.Writer }

func (w clientWriter) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if err != nil {
		err = fmt.Errorf("%w: %w", errClientGone, err)
	}
	return n, err
}
