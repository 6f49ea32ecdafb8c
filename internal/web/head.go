package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// maxHeadBytes bounds the status line and headers of an answer, with the
	// interim answers before it and the trailers after it. The reference
	// takes about 400 KiB.
	maxHeadBytes = 1 << 20

	// maxHeadFields bounds its header lines, because a line costs more in the
	// answer to the client than here. The reference takes 100.
	maxHeadFields = 4096
)

var errHead = errors.New("answer is not HTTP/1.1")

// A head is the status line and headers of an answer.
type head struct {
	status int
	old    bool // HTTP/1.0
	header headers
}

// readHead reads the head of the final answer: interim ones are skipped.
func readHead(r *bufio.Reader) (*head, error) {
	lines := lineReader{r: r, left: maxHeadBytes}
	for {
		h, err := lines.head()
		if err != nil || h.status >= 200 || h.status == 101 {
			return h, err
		}
	}
}

// keepAlive tells whether both sides let the connection live after an answer
// to a request with the header sent.
func (h *head) keepAlive(sent *headers) bool {
	if sent.wantsConnection("close") || h.header.wantsConnection("close") {
		return false
	}
	return !h.old || h.header.wantsConnection("keep-alive")
}

// A lineReader reads lines up to a number of bytes.
type lineReader struct {
	r    *bufio.Reader
	left int
}

// head reads one head, interim or final.
func (l *lineReader) head() (*head, error) {
	line, err := l.line()
	for err == nil && len(line) == 0 { // empty lines before the first one do no harm
		line, err = l.line()
	}
	if err != nil {
		return nil, err
	}
	h := &head{}
	if err := h.parseStatus(line); err != nil {
		return nil, err
	}
	return h, l.fields(&h.header)
}

// fields reads header lines to the empty line.
func (l *lineReader) fields(h *headers) error {
	for n := 0; ; n++ {
		line, err := l.line()
		if err != nil || len(line) == 0 {
			return err
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		value = bytes.Trim(value, " \t")
		if !ok || !isToken(name) || !isHeaderValue(value) {
			return fmt.Errorf("%w: bad header line", errHead)
		}
		if n == maxHeadFields {
			return fmt.Errorf("answer has more than %d header lines", maxHeadFields)
		}
		h.add(strings.ToLower(string(name)), string(value))
	}
}

// line returns the next line without its end, good until the next call.
func (l *lineReader) line() ([]byte, error) {
	var long []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if l.left -= len(part); l.left < 0 {
			return nil, fmt.Errorf("head of the answer exceeds %d bytes", maxHeadBytes)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
			continue
		case errors.Is(err, io.EOF):
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		case long != nil:
			part = append(long, part...)
		}
		return bytes.TrimSuffix(part[:len(part)-1], []byte("\r")), nil
	}
}

// parseStatus reads "HTTP/1.1 200 OK"; the reason is not needed.
func (h *head) parseStatus(line []byte) error {
	const version = "HTTP/1.x "
	if len(line) < len(version)+3 || !isHeaderValue(line) {
		return errHead
	}
	switch string(line[:len(version)]) {
	case "HTTP/1.1 ":
	case "HTTP/1.0 ":
		h.old = true
	default:
		return errHead
	}
	code, reason := line[len(version):len(version)+3], line[len(version)+3:]
	for _, digit := range code {
		if digit < '0' || digit > '9' {
			return errHead
		}
		h.status = 10*h.status + int(digit-'0')
	}
	if h.status < 100 || len(reason) > 0 && reason[0] != ' ' {
		return errHead
	}
	return nil
}
