package tethertest

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"
)

// Limits of the reference client's WebSocket. A larger frame or message ends the connection.
const (
	MaxFrame   = 16 << 20
	MaxMessage = 64 << 20
)

// Opcodes of WebSocket frames.
const (
	OpContinuation = frames.OpContinuation
	OpText         = frames.OpText
	OpBinary       = frames.OpBinary
	OpClose        = frames.OpClose
	OpPing         = frames.OpPing
	OpPong         = frames.OpPong
)

// CloseError is what Read returns after the peer sent a close frame.
type CloseError struct {
	Code   int // 1005 if the frame had none
	Reason string
}

func (e *CloseError) Error() string { return fmt.Sprintf("peer closed: %d %q", e.Code, e.Reason) }

// UpgradeError is what DialWS returns when the server answers without upgrading.
type UpgradeError struct {
	Status int
	Header http.Header
	Body   string
}

func (e *UpgradeError) Error() string {
	return fmt.Sprintf("upgrade refused: %d %s", e.Status, e.Body)
}

// WS is a small WebSocket client that gives its user control over frames. Tests can send frames that a library would refuse to send,
// and see how a message was framed. One goroutine may read while others write.
type WS struct {
	conn net.Conn
	in   *bufio.Reader

	writing sync.Mutex

	// Set before the first Read.
	OnPing     func(payload []byte) // nil: answer with a pong
	IgnorePing bool
}

// DialWS opens a WebSocket to a ws:// URL or to unix://PATH. Only the headers that the
// reference client sends are sent, plus header.
func DialWS(ctx context.Context, rawURL string, header http.Header) (*WS, error) {
	request, network := rawURL, "tcp"
	path, isUnix := strings.CutPrefix(rawURL, "unix://")
	if isUnix {
		request, network = "ws://localhost/", "unix"
	}
	u, err := url.Parse(request)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", rawURL, err)
	}
	address := u.Host
	if isUnix {
		address = path
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	w, err := upgrade(conn, u, header)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("dial %s: %w", rawURL, err)
	}
	return w, nil
}

func upgrade(conn net.Conn, u *url.URL, header http.Header) (*WS, error) {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	path := u.RequestURI()
	request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n", path, u.Host, base64.StdEncoding.EncodeToString(nonce))
	for name, values := range header {
		for _, v := range values {
			request += name + ": " + v + "\r\n"
		}
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(conn, 64<<10)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
		return nil, &UpgradeError{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
	}
	return &WS{conn: conn, in: in}, nil
}

// LocalAddr is the client's side of the connection, as IP:PORT.
func (w *WS) LocalAddr() string { return w.conn.LocalAddr().String() }

// Conn is the connection below.
func (w *WS) Conn() net.Conn { return w.conn }

// Close drops the TCP connection without a close frame, as the reference client
// does.
func (w *WS) Close() error { return w.conn.Close() }

// WriteText sends one message as one masked text frame.
func (w *WS) WriteText(message []byte) error { return w.WriteFrame(0x80|OpText, true, message) }

// WriteFrame sends one frame with the given first byte (FIN, reserved bits,
// opcode), masked or, against the rules, not.
func (w *WS) WriteFrame(first byte, masked bool, payload []byte) error {
	f := frames.Frame{Fin: first&0x80 != 0, Reserved: first >> 4 & 7, Op: first & 0x0f, Masked: masked, Payload: payload}
	frame := f.Bytes()
	w.writing.Lock()
	defer w.writing.Unlock()
	_, err := w.conn.Write(frame)
	return err
}

// WriteRaw sends bytes as they are, such as a part of a frame.
func (w *WS) WriteRaw(b []byte) error {
	_, err := w.conn.Write(b)
	return err
}

// ReadRaw fills b with the bytes that come next, frame headers included.
func (w *WS) ReadRaw(b []byte) error {
	_, err := io.ReadFull(w.in, b)
	return err
}

// Read returns the next message. Pings are answered; a close frame gives a
// *CloseError; a frame or message above the reference client's limits is an
// error, after which the connection must be closed.
func (w *WS) Read() (opcode byte, message []byte, err error) {
	started := false
	for {
		f, err := w.readFrame()
		if err != nil {
			return 0, nil, err
		}
		switch f.Op {
		case OpPing:
			if err := w.pinged(f.Payload); err != nil {
				return 0, nil, err
			}
			continue
		case OpPong:
			continue
		case OpClose:
			code, reason := f.CloseCode()
			return 0, nil, &CloseError{Code: int(code), Reason: reason}
		case OpText, OpBinary:
			if started {
				return 0, nil, errors.New("websocket: new message inside a fragmented one")
			}
			opcode, message, started = f.Op, f.Payload, true
		case OpContinuation:
			if !started {
				return 0, nil, errors.New("websocket: continuation of nothing")
			}
			message = append(message, f.Payload...)
		default:
			return 0, nil, fmt.Errorf("websocket: opcode %#x", f.Op)
		}
		if len(message) > MaxMessage {
			return 0, nil, fmt.Errorf("websocket: message exceeds %d bytes", MaxMessage)
		}
		if f.Fin {
			return opcode, message, nil
		}
	}
}

func (w *WS) pinged(payload []byte) error {
	if w.OnPing != nil {
		w.OnPing(payload)
	}
	if w.IgnorePing {
		return nil
	}
	return w.WriteFrame(0x80|OpPong, true, payload)
}

func (w *WS) readFrame() (frames.Frame, error) {
	f, err := frames.Read(w.in)
	switch {
	case err != nil:
		return f, err
	case f.Reserved != 0:
		return f, errors.New("websocket: reserved bits set")
	case f.Masked:
		return f, errors.New("websocket: masked frame from the server")
	case len(f.Payload) > MaxFrame:
		return f, fmt.Errorf("websocket: frame of %d bytes exceeds %d", len(f.Payload), MaxFrame)
	}
	return f, nil
}
