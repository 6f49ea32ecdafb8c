// Package frames reads and writes WebSocket frames for tests. It is written apart from internal/websocket, byte by
// byte and without its rules: a mistake in one of the two is not repeated by the other, and tests can send frames
// that no peer may send.
package frames

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Opcodes of frames.
const (
	OpContinuation = 0x0
	OpText         = 0x1
	OpBinary       = 0x2
	OpClose        = 0x8
	OpPing         = 0x9
	OpPong         = 0xA
)

// maxFrame is the largest frame that a test reads.
const maxFrame = 128 << 20

// mask is the key of all masked frames: tests send the same bytes each time.
var mask = [4]byte{0x1f, 0xa2, 0x03, 0xc4}

// A Frame is one frame, its payload in clear.
type Frame struct {
	Fin      bool
	Reserved byte
	Op       byte
	Masked   bool
	Payload  []byte
}

// New returns a frame as a server sends it.
func New(op byte, fin bool, payload []byte) Frame {
	return Frame{Fin: fin, Op: op, Payload: payload}
}

// Text returns a message in one frame.
func Text(payload []byte) Frame { return New(OpText, true, payload) }

// Ping returns a ping.
func Ping(payload []byte) Frame { return New(OpPing, true, payload) }

// Pong returns a pong.
func Pong(payload []byte) Frame { return New(OpPong, true, payload) }

// Close returns a close frame.
func Close(code uint16, reason string) Frame {
	return New(OpClose, true, append(binary.BigEndian.AppendUint16(nil, code), reason...))
}

// FromClient returns the frame as a client sends it.
func (f Frame) FromClient() Frame {
	f.Masked = true
	return f
}

// CloseCode returns what a close frame says; the code is 1005 if it has none.
func (f Frame) CloseCode() (code uint16, reason string) {
	if len(f.Payload) < 2 {
		return 1005, ""
	}
	return binary.BigEndian.Uint16(f.Payload), string(f.Payload[2:])
}

// Bytes returns the frame as it is sent.
func (f Frame) Bytes() []byte {
	first, second := f.Reserved<<4|f.Op, byte(0)
	if f.Fin {
		first |= 0x80
	}
	if f.Masked {
		second = 0x80
	}
	b := make([]byte, 0, len(f.Payload)+14)
	b = append(b, first)
	switch n := len(f.Payload); {
	case n < 126:
		b = append(b, second|byte(n))
	case n < 1<<16:
		b = append(b, second|126)
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b = append(b, second|127)
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	if !f.Masked {
		return append(b, f.Payload...)
	}
	b = append(b, mask[:]...)
	return append(b, xor(f.Payload, mask)...)
}

// xor returns the payload with a mask on it, or without it if it had one. It does not look at single bytes, which takes long
// with the race detector.
func xor(payload []byte, key [4]byte) []byte {
	b := make([]byte, len(payload))
	subtle.XORBytes(b, payload, bytes.Repeat(key[:], (len(payload)+3)/4))
	return b
}

// Write sends a frame.
func Write(w io.Writer, f Frame) error {
	_, err := w.Write(f.Bytes())
	return err
}

// Read returns the next frame. It reads nothing behind it.
func Read(r io.Reader) (f Frame, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return f, err
	}
	f.Fin, f.Reserved, f.Op, f.Masked = head[0]&0x80 != 0, head[0]>>4&7, head[0]&0x0f, head[1]&0x80 != 0
	size := uint64(head[1] & 0x7f)
	switch size {
	case 126:
		size, err = readNumber(r, 2)
	case 127:
		size, err = readNumber(r, 8)
	}
	if err != nil {
		return f, err
	}
	if size > maxFrame {
		return f, fmt.Errorf("frame of %d bytes", size)
	}
	var key [4]byte
	if f.Masked {
		if _, err := io.ReadFull(r, key[:]); err != nil {
			return f, noEOF(err)
		}
	}
	f.Payload = make([]byte, size)
	if _, err := io.ReadFull(r, f.Payload); err != nil {
		return f, noEOF(err)
	}
	if f.Masked {
		f.Payload = xor(f.Payload, key)
	}
	return f, nil
}

// readNumber reads a number of some bytes, the most significant first.
func readNumber(r io.Reader, size int) (n uint64, err error) {
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, noEOF(err)
	}
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n, nil
}

// noEOF makes an end inside a frame an error of its own.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Accept does a server's part of the handshake. The client waits for the answer before it sends a frame.
func Accept(conn io.ReadWriter) error {
	var head bytes.Buffer
	for !bytes.HasSuffix(head.Bytes(), []byte("\r\n\r\n")) {
		if head.Len() > 64<<10 {
			return errors.New("the request has no end")
		}
		if _, err := io.CopyN(&head, conn, 1); err != nil {
			return err
		}
	}
	request, err := http.ReadRequest(bufio.NewReader(&head))
	if err != nil {
		return err
	}
	key := request.Header.Get("Sec-WebSocket-Key")
	if nonce, err := base64.StdEncoding.DecodeString(key); err != nil || len(nonce) != 16 ||
		request.Header.Get("Upgrade") != "websocket" || request.Header.Get("Sec-WebSocket-Version") != "13" {
		return fmt.Errorf("not a request for a WebSocket: %v", request.Header)
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	return err
}
