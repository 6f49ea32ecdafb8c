package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tetherexec/tether/client"
)

const (
	// statusDelay is how long an outage lasts before it is shown: most are over before a
	// person could read the line.
	statusDelay = 500 * time.Millisecond

	// statusStep is how often the line on a terminal is renewed.
	statusStep = time.Second
)

// A StatusLine shows that the connection is lost, and when it is back. On a terminal it is one
// line below the cursor, which is removed when output continues; elsewhere it is a plain line for
// each event.
type StatusLine struct {
	to       io.Writer
	terminal bool
	quiet    bool

	mu        sync.Mutex
	raw       bool
	since     time.Time // when the outage began; zero if there is none
	reason    string    // why the connection, or the last attempt, has ended; may be empty
	announced bool      // the outage was shown
	shown     shownStatus
	timer     *time.Timer
	closed    bool
	alternate alternateScreen
	notes     []string // printed when a full-screen program ends
}

// shownStatus is where the status is shown.
type shownStatus uint8

const (
	notShown shownStatus = iota
	belowCursor
	inTitle
)

// Control sequences. Index goes down one line in the same column and makes room for
// it at the end of the screen.
const (
	escMakeRoom    = "\x1bD\x1b[A"
	escSave        = "\x1b7"
	escRestore     = "\x1b8"
	escBelow       = "\x1b[B\r\x1b[2K"
	escClearToEnd  = "\x1b[J"
	escTitleSave   = "\x1b[22;2t"
	escTitleBegin  = "\x1b]2;"
	escTitleEnd    = "\x07"
	escTitleGoBack = "\x1b[23;2t"
)

func NewStatusLine(stderr io.Writer, quiet bool) *StatusLine {
	return &StatusLine{to: stderr, terminal: Is(stderr), quiet: quiet}
}

// SetRaw says whether the terminal is in raw mode.
func (s *StatusLine) SetRaw(raw bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raw = raw
}

// Tell is client.Options.OnState.
func (s *StatusLine) Tell(status client.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.quiet {
		return
	}
	switch status.State {
	case client.Connecting:
		if status.Attempt == 1 {
			s.noteLocked(connectingText(status))
		}
	case client.Recovering:
		s.reason = status.Reason()
		if s.since.IsZero() {
			s.since = time.Now()
			s.timer = time.AfterFunc(statusDelay, s.tick)
		}
	case client.Connected:
		s.over()
	}
}

// over ends an outage. The caller holds s.mu.
func (s *StatusLine) over() {
	if s.since.IsZero() {
		return
	}
	s.timer.Stop()
	s.hide()
	if s.announced && !s.terminal {
		fmt.Fprintf(s.to, "tether: connected again after %s\n", roundSeconds(time.Since(s.since)))
	}
	s.since, s.announced = time.Time{}, false
}

// tick shows the status, and again each statusStep while the outage lasts.
func (s *StatusLine) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || s.closed {
		return
	}
	if !s.terminal {
		s.announced = true
		fmt.Fprintf(s.to, "tether: %s\n", outageText(0, s.reason))
		return
	}
	s.announced = true
	s.show()
	s.timer.Reset(statusStep)
}

// maxReason is how many cells of a terminal a reason takes.
const maxReason = 300

// outageText describes an outage. If lasted is 0, the text does not say how long it lasts.
func outageText(lasted time.Duration, reason string) string {
	text := "connection lost, reconnecting"
	if lasted > 0 {
		text += " (" + roundSeconds(lasted) + ")"
	}
	if reason != "" {
		text += ": " + shorten(Printable(reason), maxReason)
	}
	return text
}

// show draws the status. The caller holds s.mu.
func (s *StatusLine) show() {
	text := "tether: " + outageText(max(time.Since(s.since), 1), s.reason)
	if s.alternate.is {
		// A program uses the whole screen, so the status goes into the title.
		save := escTitleSave
		if s.shown == inTitle { // the terminal keeps a stack of titles: hide takes one off
			save = ""
		}
		s.shown = inTitle
		io.WriteString(s.to, save+escTitleBegin+text+escTitleEnd)
		return
	}
	room := ""
	if s.shown == notShown {
		room = escMakeRoom
	}
	s.shown = belowCursor
	io.WriteString(s.to, room+escSave+escBelow+fit(text, s.to)+escRestore)
}

// fit shortens a text to one line of a terminal.
func fit(text string, to io.Writer) string {
	if f, ok := to.(*os.File); ok {
		if _, cols := Size(f); cols > 1 {
			return shorten(text, int(cols)-1)
		}
	}
	return text
}

// shorten is Cut for lines that have few characters outside ASCII. It takes two cells for each of them, so the result may be shorter
// than it has to be. The tables of Cut would make the program 0.1 MB larger for the one line of the status.
func shorten(text string, width int) string {
	cells, end := 0, 0 // end is where the text is cut if it is too long: the ellipsis takes a cell
	for i, r := range text {
		if cells < width {
			end = i
		}
		cells++
		if r >= utf8.RuneSelf {
			cells++
		}
		if cells > width {
			return text[:end] + "…"
		}
	}
	return text
}

// hide removes the status. The caller holds s.mu.
func (s *StatusLine) hide() {
	switch s.shown {
	case inTitle:
		io.WriteString(s.to, escTitleGoBack)
	case belowCursor:
		if s.raw {
			io.WriteString(s.to, escSave+escBelow+escRestore)
		} else {
			// Keys may have moved the cursor, but only the status is behind it.
			io.WriteString(s.to, escClearToEnd)
		}
	}
	s.shown = notShown
}

// connectingText says why a server could not be reached; the client tries again.
func connectingText(status client.Status) string {
	return "waiting for the server: " + shorten(Printable(status.Err.Error()), maxReason)
}

// Note prints a line that stays.
func (s *StatusLine) Note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.quiet && !s.closed {
		s.noteLocked(text)
	}
}

func (s *StatusLine) noteLocked(text string) {
	s.notes = append(s.notes, "tether: "+text)
	if !s.terminal || !s.alternate.is {
		s.tellNotes()
	}
}

// tellNotes prints the notes that wait. The caller holds s.mu.
func (s *StatusLine) tellNotes() {
	s.hide()
	for _, text := range s.notes {
		if s.terminal && s.raw { // the cursor may be anywhere, and the raw terminal does not move it
			text = "\r\n" + text + "\r"
		}
		io.WriteString(s.to, text+"\n")
	}
	s.notes = nil
}

// Close removes the status; nothing is shown after it.
func (s *StatusLine) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.hide()
	s.tellNotes()
}

// Output returns a writer for output. If it goes to the terminal of the status, output and status
// do not overwrite each other. Other files are written to directly.
func (s *StatusLine) Output(f io.Writer) io.Writer {
	if !s.terminal || !Is(f) {
		return f
	}
	return statusWriter{s, f}
}

type statusWriter struct {
	status *StatusLine
	to     io.Writer
}

// Write holds the lock, so that the status is not drawn in the middle of output. While the terminal
// is stopped (Ctrl-S), goroutines that report a state wait.
func (w statusWriter) Write(b []byte) (int, error) {
	s := w.status
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hide()
	s.alternate.follow(b)
	n, err := w.to.Write(b)
	if len(s.notes) > 0 && !s.alternate.is {
		s.tellNotes()
	}
	return n, err
}

func roundSeconds(d time.Duration) string { return d.Round(time.Second).String() }

// An alternateScreen finds out from the output whether a program has switched the terminal to
// the alternate screen, as editors do.
type alternateScreen struct {
	tail []byte // the end of the output, which may be the beginning of a sequence
	is   bool
}

var (
	alternateOn  = [][]byte{[]byte("\x1b[?1049h"), []byte("\x1b[?1047h"), []byte("\x1b[?47h")}
	alternateOff = [][]byte{[]byte("\x1b[?1049l"), []byte("\x1b[?1047l"), []byte("\x1b[?47l")}
)

// longestSwitch is the length of the longest of these sequences.
const longestSwitch = len("\x1b[?1049h")

func (a *alternateScreen) follow(b []byte) {
	if len(a.tail) == 0 && bytes.IndexByte(b, 0x1b) < 0 {
		return
	}
	text := append(a.tail, b...)
	if on, off := lastOf(text, alternateOn), lastOf(text, alternateOff); on != off {
		a.is = on > off
	}
	a.tail = bytes.Clone(text[max(0, len(text)-longestSwitch+1):])
	if i := bytes.LastIndexByte(a.tail, 0x1b); i >= 0 {
		a.tail = a.tail[i:]
	} else {
		a.tail = nil
	}
}

func lastOf(text []byte, sequences [][]byte) int {
	last := -1
	for _, s := range sequences {
		last = max(last, bytes.LastIndex(text, s))
	}
	return last
}
