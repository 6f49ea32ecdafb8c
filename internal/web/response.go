package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tetherexec/tether/internal/host"
	"github.com/tetherexec/tether/wire"
)

const (
	// MaxDelta is how many bytes of a body one delta may have. Clients end the connection if a
	// delta is larger.
	MaxDelta = 1 << 20

	// MaxBuffered bounds a body that is sent in the answer itself. As base64, with up to 1 MiB of
	// headers whose bytes may each need six bytes in JSON, it must fit into a message of 64 MiB.
	// Larger bodies must be streamed. The reference has no limit here.
	MaxBuffered = (64 - 8) << 20 / 4 * 3

	// maxHeadBytes bounds the status line and headers of an answer, with the interim answers
	// before it. The reference accepts about 400 KiB.
	maxHeadBytes = 1 << 20

	// maxHeadFields bounds the header lines of an answer, because a line needs more memory in the
	// answer to the client than here. The reference accepts 100.
	maxHeadFields = 4096

	// firstBuffer is the size of the first buffer of a body that is sent in the answer.
	firstBuffer = 64 << 10

	// firstDelta is the size of a stream's first buffer. The buffer doubles up to MaxDelta while
	// reads fill it, so that a slow stream needs little memory.
	firstDelta = 16 << 10
)

// A Response is the answer to a request. Its body must be closed, directly or
// by one of the methods.
type Response struct {
	Status  int
	Headers []wire.HTTPResponseHeader // never nil; names in lower case
	Body    io.ReadCloser             // its errors are *Error

	requestID string
	length    int64 // of the body; negative: not known
}

// newResponse returns the answer to a request with these parameters. cancel ends
// the request.
func newResponse(p *wire.HTTPRequestParams, r *http.Response, cancel context.CancelFunc) *Response {
	b := &body{ReadCloser: r.Body, cancel: cancel}
	if r.StatusCode == http.StatusSwitchingProtocols || r.Request.Method == http.MethodConnect && r.StatusCode/100 == 2 {
		b.Close() // the following bytes are no longer HTTP
		b.ended = io.EOF
	}
	return &Response{
		Status: r.StatusCode, Headers: wireHeaders(r), Body: b,
		requestID: p.RequestID, length: r.ContentLength,
	}
}

// checkHead refuses answers that net/http accepts although they are not HTTP.
func checkHead(r *http.Response) error {
	switch {
	case r.StatusCode < 100:
		return fmt.Errorf("answer has the status %d", r.StatusCode)
	case r.ProtoMajor != 1 && r.TLS == nil: // HTTP/2 is spoken over TLS only
		return fmt.Errorf("answer has the version %s", r.Proto)
	}
	lines := 0
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, isBadValue) {
			return errors.New("answer has a bad header line")
		}
		if lines += len(values); lines > maxHeadFields {
			return fmt.Errorf("answer has more than %d header lines", maxHeadFields)
		}
	}
	return nil
}

func isBadValue(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }

// wireHeaders returns the headers of an answer for the client, sorted by name. Values that are not
// ASCII are left out.
func wireHeaders(r *http.Response) []wire.HTTPResponseHeader {
	list := []wire.HTTPResponseHeader{}
	add := func(name string, values []string) {
		for _, v := range values {
			if host.IsASCII(v) {
				list = append(list, wire.HTTPResponseHeader{Name: strings.ToLower(name), Value: v})
			}
		}
	}
	for name, values := range r.Header {
		add(name, values)
	}
	add("transfer-encoding", r.TransferEncoding) // net/http does not keep it in the header
	sort.SliceStable(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// A body is the body of an answer. All its errors are *Error.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc // of the request

	ended error // the error of each later Read
}

func (b *body) Read(p []byte) (int, error) {
	if b.ended != nil {
		return 0, b.ended
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.ended = io.EOF
		if err != io.EOF {
			b.ended = badBody(bodyFailure, err)
		}
		b.Close()
	}
	if n > 0 {
		return n, nil // the next call returns the end
	}
	return n, b.ended
}

// Close ends the request, also while Read waits. If the body was not read to its end, the connection
// is closed.
func (b *body) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

var errTooLarge = badBody(fmt.Sprintf(
	"it exceeds %d bytes, the most that one answer carries; use streamResponse", MaxBuffered), ErrBodyTooLarge)

// Buffer reads the whole body and returns the answer with it. Before it allocates more than
// firstBuffer bytes, it calls room; if room returns an error, Buffer returns that.
func (r *Response) Buffer(room func(bytes int) error) (*wire.HTTPResponse, error) {
	defer r.Body.Close()
	if r.length > MaxBuffered {
		return nil, errTooLarge
	}
	size := firstBuffer
	if r.length > firstBuffer {
		size = int(r.length) + 1 // one more, so that ReadFull sees the end
	}
	var data []byte
	for {
		if size > firstBuffer {
			if err := room(size); err != nil {
				return nil, err
			}
		}
		data = append(make([]byte, 0, size), data...)
		n, err := io.ReadFull(r.Body, data[len(data):size])
		data = data[:len(data)+n]
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF: // of ReadFull; the body's own errors are *Error
			return &wire.HTTPResponse{Status: r.Status, Headers: r.Headers, BodyBase64: data}, nil
		case err != nil:
			return nil, err
		case len(data) > MaxBuffered:
			return nil, errTooLarge
		}
		size = min(2*size, MaxBuffered+1)
	}
}

// Head returns the answer that is sent before a streamed body.
func (r *Response) Head() *wire.HTTPResponse {
	return &wire.HTTPResponse{Status: r.Status, Headers: r.Headers, BodyBase64: wire.Base64{}}
}

// Deltas sends the body piece by piece and closes it. Deltas are numbered from 1 and have the bytes
// that have arrived, at most MaxDelta. Exactly one terminal delta follows them, also after a failure
// of the body. send may block: then the body is not read, which is back-pressure for its server. The
// bytes of a delta are valid until send returns. If send fails, Deltas returns its error, without a
// terminal delta; if ctx has ended, it returns the cause. The buffer grows only if room returns true
// for that many more bytes.
func (r *Response) Deltas(ctx context.Context, room func(more int) bool, send func(wire.HTTPBodyDelta) error) error {
	defer r.Body.Close()
	defer context.AfterFunc(ctx, func() { r.Body.Close() })()
	buffer := make([]byte, firstDelta)
	for seq := uint64(1); ; seq++ {
		n, err := r.Body.Read(buffer)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if n == 0 && err == nil {
			seq--
			continue
		}
		delta := wire.HTTPBodyDelta{RequestID: r.requestID, Seq: seq, DeltaBase64: buffer[:n]}
		if err != nil {
			delta.Done = true
			if !errors.Is(err, io.EOF) {
				text := bodyFailure
				delta.Error = &text
			}
		}
		if err := send(delta); err != nil || delta.Done {
			return err
		}
		if n == len(buffer) && n < MaxDelta && room(n) {
			buffer = make([]byte, 2*n)
		}
	}
}
