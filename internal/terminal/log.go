package terminal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// maxLine is the longest line; a longer one is split.
const maxLine = 1 << 20

// A LogPrinter prints the output of a process, as bytes or by lines.
type LogPrinter struct {
	Stdout, Stderr io.Writer
	Grep           *regexp.Regexp // nil: every line
	Tail           int            // hold back all but the newest lines until Release; < 0: print all at once
	JSON           bool           // print events as JSON, one per line
	Times          bool           // begin each line with its time
	From           time.Time      // leave out output from before this time

	parts map[string][]byte    // lines that have not ended, by stream
	began map[string]time.Time // when they began
	held  []logLine
}

// A logLine is a line of output, or with JSON an event.
type logLine struct {
	stream string
	text   []byte
}

// byLines reports whether output has to be split into lines.
func (p *LogPrinter) byLines() bool { return p.Grep != nil || p.Tail >= 0 || p.Times }

// Event prints an event.
func (p *LogPrinter) Event(e client.Observed) error {
	if e.Kind != client.Gap && e.Time.Before(p.From) {
		return nil
	}
	if p.JSON {
		return p.jsonEvent(e)
	}
	if e.Kind != client.Output {
		return nil
	}
	if !p.byLines() {
		return p.write(logLine{e.Stream, e.Data})
	}
	if p.parts == nil {
		p.parts, p.began = map[string][]byte{}, map[string]time.Time{}
	}
	if len(p.parts[e.Stream]) == 0 {
		p.began[e.Stream] = e.Time
	}
	text := append(p.parts[e.Stream], e.Data...)
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 && len(text) > maxLine {
			end = maxLine
		}
		if end == 0 {
			break
		}
		if err := p.line(e.Stream, text[:end]); err != nil {
			return err
		}
		text = text[end:]
		p.began[e.Stream] = e.Time
	}
	p.parts[e.Stream] = bytes.Clone(text)
	return nil
}

// line prints a line, or keeps it for later.
func (p *LogPrinter) line(stream string, text []byte) error {
	if p.Grep != nil && !p.Grep.Match(bytes.TrimRight(text, "\r\n")) {
		return nil
	}
	if p.Times {
		text = append(p.began[stream].Local().AppendFormat(nil, timestampLayout+" "), text...)
	}
	return p.keep(logLine{stream, text})
}

// timestampLayout is RFC 3339 with milliseconds.
const timestampLayout = "2006-01-02T15:04:05.000Z07:00"

func (p *LogPrinter) keep(l logLine) error {
	if p.Tail < 0 {
		return p.write(l)
	}
	l.text = bytes.Clone(l.text)
	p.held = append(p.held, l)
	if len(p.held) > p.Tail {
		p.held[0] = logLine{}
		p.held = p.held[1:]
	}
	return nil
}

// Release prints the lines that were held back; later lines are printed at once. A line that has not
// ended is printed when it ends.
func (p *LogPrinter) Release() error {
	open := 0
	for _, text := range p.parts {
		if len(text) > 0 && (p.Grep == nil || p.Grep.Match(text)) {
			open++
		}
	}
	held := p.held
	if over := len(held) + open - p.Tail; p.Tail >= 0 && over > 0 {
		held = held[min(over, len(held)):]
	}
	p.held, p.Tail = nil, -1
	for _, l := range held {
		if err := p.write(l); err != nil {
			return err
		}
	}
	return nil
}

// Finish prints the lines that have not ended.
func (p *LogPrinter) Finish() error {
	for _, stream := range []string{wire.StreamStdout, wire.StreamStderr, wire.StreamPTY} {
		if rest := p.parts[stream]; len(rest) > 0 {
			if err := p.line(stream, rest); err != nil {
				return err
			}
		}
	}
	p.parts = nil
	return p.Release()
}

func (p *LogPrinter) write(l logLine) error {
	to := p.Stdout
	if l.stream == wire.StreamStderr && !p.JSON {
		to = p.Stderr
	}
	_, err := to.Write(l.text)
	return err
}

// A logEvent is an event in JSON. The output is in Text if it is UTF-8, else in Base64.
type logEvent struct {
	Seq      uint64  `json:"seq"`
	TimeMs   int64   `json:"timeMs,omitempty"` // Unix time; a gap has none
	Event    string  `json:"event"`            // output, exited, closed or gap
	Stream   string  `json:"stream,omitempty"`
	Text     *string `json:"text,omitempty"`
	Base64   *string `json:"base64,omitempty"`
	ExitCode *int    `json:"exitCode,omitempty"`
	FirstSeq uint64  `json:"firstSeq,omitempty"` // of a gap
}

func (p *LogPrinter) jsonEvent(e client.Observed) error {
	out := logEvent{Seq: e.Seq}
	if e.Kind != client.Gap {
		out.TimeMs = e.Time.UnixMilli()
	}
	switch e.Kind {
	case client.Output:
		if p.Grep != nil && !p.Grep.Match(e.Data) {
			return nil
		}
		out.Event, out.Stream = "output", e.Stream
		if text := string(e.Data); utf8.ValidString(text) {
			out.Text = &text
		} else {
			text = base64.StdEncoding.EncodeToString(e.Data)
			out.Base64 = &text
		}
	case client.Exited:
		out.Event, out.ExitCode = "exited", &e.ExitCode
	case client.Closed:
		out.Event = "closed"
	case client.Gap:
		out.Event, out.FirstSeq = "gap", e.First
	}
	line, err := json.Marshal(out)
	if err != nil {
		return err
	}
	return p.keep(logLine{wire.StreamStdout, append(line, '\n')})
}
