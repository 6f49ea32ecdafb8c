package cast

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"
)

// A Writer writes a recording of the output of a process. After an error of the underlying writer all methods return it.
type Writer struct {
	out   *bufio.Writer
	start time.Time
	pipes bool

	last  time.Duration     // time of the last event
	parts map[string][]byte // by stream: the beginning of a character whose other bytes have not arrived
	line  []byte            // of the event that is being written
}

// NewWriter writes the header of a recording. The events count their time from h.Start. With pipes, the output is that of a process
// without a terminal: each newline is written as carriage return and newline, as a terminal shows it.
func NewWriter(out io.Writer, h Header, pipes bool) (*Writer, error) {
	header := struct {
		Version   int     `json:"version"`
		Width     int     `json:"width"`
		Height    int     `json:"height"`
		Timestamp int64   `json:"timestamp"`
		Idle      float64 `json:"idle_time_limit,omitempty"`
		Title     string  `json:"title,omitempty"`
	}{Version, h.Width, h.Height, h.Start.Unix(), h.Idle.Seconds(), shortened(h.Title)}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	w := &Writer{out: bufio.NewWriterSize(out, maxText), start: h.Start, pipes: pipes, parts: map[string][]byte{}}
	w.out.Write(append(text, '\n')) // the bufio.Writer keeps the error
	return w, nil
}

// shortened cuts a text before the character that goes beyond maxTitle.
func shortened(text string) string {
	if len(text) <= maxTitle {
		return text
	}
	end := maxTitle
	for !utf8.RuneStart(text[end]) && end > maxTitle-utf8.UTFMax {
		end--
	}
	return text[:end] + "…"
}

// Output writes output of a stream. The recording does not say of which stream it is, because the format cannot; but the characters of
// two streams are not mixed.
func (w *Writer) Output(at time.Time, stream string, data []byte) error {
	for len(data) > 0 {
		part := data[:min(len(data), maxText)]
		data = data[len(part):]
		if err := w.output(at, stream, part, false); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) output(at time.Time, stream string, data []byte, over bool) error {
	if before := w.parts[stream]; len(before) > 0 {
		data = append(before, data...)
		delete(w.parts, stream)
	}
	w.begin(at, Output)
	empty := len(w.line)
	var rest []byte
	w.line, rest = appendText(w.line, data, w.pipes, over)
	if len(rest) > 0 {
		w.parts[stream] = append([]byte(nil), rest...)
	}
	if len(w.line) == empty {
		return nil
	}
	return w.end()
}

// Marker writes a marker with a label.
func (w *Writer) Marker(at time.Time, label string) error {
	w.begin(at, Marker)
	w.line, _ = appendText(w.line, []byte(shortened(label)), false, true)
	return w.end()
}

// Close writes what is left: characters that have not arrived as a whole. It does not close the underlying writer.
func (w *Writer) Close() error {
	for stream := range w.parts {
		if err := w.output(w.start.Add(w.last), stream, nil, true); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Flush writes all events so far to the underlying writer.
func (w *Writer) Flush() error {
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}

// begin begins the line of an event. Times never decrease, also if the clock was set back.
func (w *Writer) begin(at time.Time, kind string) {
	w.last = min(max(w.last, at.Sub(w.start)), MaxTime)
	ms := w.last.Milliseconds()
	w.line = strconv.AppendInt(append(w.line[:0], '['), ms/1000, 10)
	ms %= 1000
	w.line = append(w.line, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), ',', ' ', '"')
	w.line = append(append(w.line, kind...), `", "`...)
}

func (w *Writer) end() error {
	w.line = append(w.line, "\"]\n"...)
	if _, err := w.out.Write(w.line); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}

const hexDigits = "0123456789abcdef"

// appendText appends text as the inside of a JSON string. It returns the beginning of a character whose end is missing, unless over:
// no more bytes will come.
func appendText(line, text []byte, pipes, over bool) (_, rest []byte) {
	for len(text) > 0 {
		b := text[0]
		size := 1
		switch {
		case b >= utf8.RuneSelf:
			if !over && !utf8.FullRune(text) {
				return line, text
			}
			var r rune
			r, size = utf8.DecodeRune(text)
			line = utf8.AppendRune(line, r)
		case b == '"' || b == '\\':
			line = append(line, '\\', b)
		case b == '\n' && pipes:
			line = append(line, `\r\n`...)
		case b == '\n':
			line = append(line, `\n`...)
		case b == '\r':
			line = append(line, `\r`...)
		case b < ' ' || b == 0x7f:
			line = append(line, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		default:
			line = append(line, b)
		}
		text = text[size:]
	}
	return line, nil
}
