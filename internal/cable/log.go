package cable

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Log prints the events of a cable for people, and writes its messages as a trace for
// programs. Message and Event are for Config.Tap and Config.Notice.
type Log struct {
	out   io.Writer
	trace io.Writer // nil: none
	start time.Time

	mu    sync.Mutex
	fates map[string]int // of the messages on which a rule acted
	err   error          // the first error of the trace
}

// NewLog makes a log. trace gets every message, one JSON object per line; it may be nil.
func NewLog(out, trace io.Writer) *Log {
	return &Log{out: out, trace: trace, start: time.Now(), fates: map[string]int{}}
}

// Say prints a line with the time since the start.
func (l *Log) Say(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sayLocked(text)
}

func (l *Log) sayLocked(text string) {
	fmt.Fprintf(l.out, "%8.3fs  %s\n", time.Since(l.start).Seconds(), text) // an error only affects the reader
}

// Event prints an event.
func (l *Log) Event(e Event) { l.Say(e.String()) }

// Message prints a message on which a rule acted, and traces all messages.
func (l *Log) Message(m Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Fate != Forwarded {
		l.fates[m.Fate]++
		what := m.Method
		if m.AnswerTo != "" {
			what = "answer to " + m.AnswerTo
		}
		l.sayLocked(fmt.Sprintf("link %d %s: %s from the %s (%d bytes)", m.Link, m.Fate, what, m.From, len(m.Raw)))
	}
	if l.trace != nil && l.err == nil {
		l.traceLocked(m)
	}
}

// Err returns the first error of the trace.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// OpenTrace makes or empties the file, which only this user can read. A file that
// is not regular, such as a pipe, is used as it is.
func OpenTrace(path string) (*os.File, error) {
	const mode = 0o600
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = file.Chmod(mode)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// A traced message is a line of the trace.
type traced struct {
	Time    time.Time       `json:"time"`
	Link    int             `json:"link"`
	From    string          `json:"from"`
	Kind    string          `json:"kind"`
	Fate    string          `json:"fate"`
	Message json.RawMessage `json:"message,omitempty"` // if it is JSON
	Data    []byte          `json:"data,omitempty"`    // if it is not, in base64
}

func (l *Log) traceLocked(m Message) {
	line := traced{Time: m.Time, Link: m.Link, From: m.From.String(), Kind: m.Kind.String(), Fate: m.Fate}
	if json.Valid(m.Raw) {
		line.Message = m.Raw
	} else {
		line.Data = m.Raw
	}
	encoder := json.NewEncoder(l.trace)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(line); err != nil {
		l.err = fmt.Errorf("write trace: %w", err)
	}
}

// Summary prints the numbers of the whole run.
func (l *Log) Summary(s Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sayLocked(fmt.Sprintf("%d links, %d refused, %d cuts, %d freezes; %d messages (%d bytes) from the client, %d (%d bytes) from the server",
		s.Links, s.Refused, s.Cuts, s.Freezes,
		s.Messages[FromClient], s.Bytes[FromClient], s.Messages[FromServer], s.Bytes[FromServer]))
	var parts []string
	for _, fate := range slices.Sorted(maps.Keys(l.fates)) {
		parts = append(parts, fmt.Sprintf("%d %s", l.fates[fate], fate))
	}
	if len(parts) > 0 {
		l.sayLocked(strings.Join(parts, ", "))
	}
}
