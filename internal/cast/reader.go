package cast

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// A FormatError means that a file is not a recording that this package can read.
type FormatError struct {
	Line    int // counted from 1
	Problem string
}

func (e *FormatError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// A Reader reads a recording. It holds one line at a time.
type Reader struct {
	in     *bufio.Reader
	header Header
	line   int           // number of the line that was read last
	buffer []byte        // that line
	last   time.Duration // time of the last event
}

// NewReader reads the header of a recording. An error is a *FormatError, or that of the underlying reader.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, 64<<10)}
	text, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil, &FormatError{1, "the file is empty"}
	}
	if err != nil {
		return nil, err
	}
	return r, r.readHeader(text)
}

// Header returns the header of the recording.
func (r *Reader) Header() Header { return r.header }

func (r *Reader) readHeader(text []byte) error {
	var h struct {
		Version       *int
		Width, Height *int
		Timestamp     *float64
		Title         *string
		Idle          *float64 `json:"idle_time_limit"`
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	var version struct{ Version *int }
	if json.Unmarshal(text, &version) != nil || version.Version == nil {
		return r.fail(`this is no recording: the first line is not a JSON object with "version": 2`)
	}
	if *version.Version != Version {
		return r.fail(fmt.Sprintf("this is version %d of the format asciicast; only version %d is supported", *version.Version, Version))
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return r.fail("malformed header: " + err.Error())
	}
	for name, size := range map[string]*int{"width": h.Width, "height": h.Height} {
		if size == nil || *size < 1 || *size > MaxSize {
			return r.fail(fmt.Sprintf("the header needs a %s between 1 and %d", name, MaxSize))
		}
	}
	r.header.Width, r.header.Height = *h.Width, *h.Height
	if h.Timestamp != nil && math.Abs(*h.Timestamp) < 1<<40 {
		r.header.Start = time.Unix(int64(*h.Timestamp), 0)
	}
	if h.Title != nil {
		r.header.Title = *h.Title
	}
	if h.Idle != nil {
		idle, ok := seconds(*h.Idle)
		if !ok {
			return r.fail("the header's idle_time_limit is out of range")
		}
		r.header.Idle = idle
	}
	return nil
}

// Next returns the next event, and io.EOF after the last. The times of events never decrease. After any error it must not be called
// again.
func (r *Reader) Next() (Event, error) {
	var text []byte
	for len(bytes.TrimSpace(text)) == 0 { // empty lines are skipped
		var err error
		if text, err = r.next(); err != nil {
			return Event{}, err
		}
	}
	var parts []json.RawMessage
	var at float64
	var e Event
	if json.Unmarshal(text, &parts) != nil || len(parts) != 3 || !isNumber(parts[0]) ||
		json.Unmarshal(parts[0], &at) != nil || !isString(parts[1], &e.Kind) || !isString(parts[2], &e.Text) {
		return Event{}, r.fail(`malformed event; expected [TIME, "KIND", "TEXT"]`)
	}
	t, ok := seconds(at)
	if !ok {
		return Event{}, r.fail("the time of the event is out of range")
	}
	r.last = max(r.last, t)
	e.Time = r.last
	return e, nil
}

// isNumber reports whether a JSON value is a number: json.Unmarshal accepts null as one.
func isNumber(value []byte) bool { return value[0] == '-' || value[0] >= '0' && value[0] <= '9' }

func isString(value []byte, s *string) bool {
	return value[0] == '"' && json.Unmarshal(value, s) == nil
}

// seconds converts a time of a recording, unless it is negative or beyond MaxTime.
func seconds(s float64) (time.Duration, bool) {
	if !(s >= 0 && s <= MaxTime.Seconds()) {
		return 0, false
	}
	return time.Duration(math.Round(s*1e6)) * time.Microsecond, true
}

func (r *Reader) fail(problem string) error { return &FormatError{r.line, problem} }

// next reads a line. The bytes are valid until the next call.
func (r *Reader) next() ([]byte, error) {
	r.line++
	r.buffer = r.buffer[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		r.buffer = append(r.buffer, part...)
		switch {
		case len(r.buffer) > MaxLine:
			return nil, r.fail(fmt.Sprintf("the line is longer than %d bytes", MaxLine))
		case err == nil, errors.Is(err, io.EOF) && len(r.buffer) > 0:
			return r.buffer, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
