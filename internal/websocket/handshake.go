package websocket

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// maxAnswer is how many bytes of an answer are read.
	maxAnswer = 64 << 10
	// maxRefusal is how many bytes are kept of the text with which a server refuses an upgrade.
	maxRefusal = 1 << 10
)

// ErrNotHTTP means that an answer is not HTTP/1.1.
var ErrNotHTTP = errors.New("the answer is not HTTP/1.1")

// A StatusError is the answer of a server that did not upgrade the connection.
type StatusError struct {
	Status int
	Text   string // up to 1 KiB of the server's text; may be empty
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answered with status %d instead of an upgrade", e.Status)
}

// An AnswerError is an answer that could not be read.
type AnswerError struct {
	Begin []byte // up to 1 KiB of it
	Err   error  // of the connection, or ErrNotHTTP
}

func (e *AnswerError) Error() string { return e.Err.Error() }

func (e *AnswerError) Unwrap() error { return e.Err }

// AcceptKey is a server's answer to the key of a client (RFC 6455, section 4.2.2).
func AcceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// Upgrade does the client's part of the handshake on a connection to the server of u. It returns the bytes that
// arrived after the answer. If it fails, the connection cannot be used any more, and the caller closes it.
func Upgrade(ctx context.Context, conn net.Conn, u *url.URL, header http.Header) (early []byte, err error) {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	early, err = upgrade(conn, u, header)
	if !stop() && (err == nil || isTimeout(err)) {
		return nil, ctx.Err()
	}
	return early, err
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

func upgrade(conn net.Conn, u *url.URL, header http.Header) ([]byte, error) {
	nonce := make([]byte, 16)
	rand.Read(nonce) // never fails
	key := base64.StdEncoding.EncodeToString(nonce)
	request := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{
		"Connection":            {"Upgrade"},
		"Upgrade":               {"websocket"},
		"Sec-WebSocket-Version": {"13"},
		"Sec-WebSocket-Key":     {key},
		"User-Agent":            {""}, // none
	}}
	for name, values := range header {
		request.Header[name] = values
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	answer := &answerReader{in: conn}
	in := bufio.NewReader(io.LimitReader(answer, maxAnswer))
	response, err := http.ReadResponse(in, request)
	if err != nil || !response.ProtoAtLeast(1, 1) || response.ProtoMajor > 1 {
		return nil, &AnswerError{Begin: answer.begin, Err: cmp.Or(answer.err, ErrNotHTTP)}
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, &StatusError{Status: response.StatusCode, Text: refusal(response)}
	}
	if err := checkAnswer(response.Header, key); err != nil {
		return nil, err
	}
	early, _ := in.Peek(in.Buffered()) // cannot fail: these bytes are in the buffer
	return bytes.Clone(early), nil
}

// checkAnswer returns an error if the headers of an upgrading answer are wrong.
func checkAnswer(h http.Header, key string) error {
	switch {
	case !strings.EqualFold(h.Get("Upgrade"), "websocket"):
		return errors.New("the server upgrades to another protocol than WebSocket")
	case !httpguts.HeaderValuesContainsToken(h["Connection"], "upgrade"):
		return errors.New("the server's upgrade has no header `Connection: upgrade`")
	case h.Get("Sec-WebSocket-Accept") != AcceptKey(key):
		return errors.New("the server's upgrade does not match the key of the request")
	case h.Get("Sec-WebSocket-Extensions") != "", h.Get("Sec-WebSocket-Protocol") != "":
		return errors.New("the server's upgrade has an extension or a protocol that was not asked for")
	}
	return nil
}

// refusal is the text of a server that refuses. A text of unknown length is not read, because it may never end.
func refusal(response *http.Response) string {
	if response.ContentLength <= 0 {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // a part is better than nothing
	return strings.TrimSpace(string(text))
}

// An answerReader remembers the beginning of the answer and the last error of reading it.
type answerReader struct {
	in    io.Reader
	begin []byte // up to maxRefusal
	err   error
}

func (r *answerReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	r.begin = append(r.begin, b[:min(n, maxRefusal-len(r.begin))]...)
	r.err = err
	return n, err
}
