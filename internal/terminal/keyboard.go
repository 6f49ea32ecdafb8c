package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
)

// An Escape finds the keys in typed input with which the user disconnects: the escape
// character at the beginning of a line, and a full stop. Typed twice, the escape character is
// passed on once.
type Escape struct {
	char  byte
	state escapeState
}

type escapeState uint8

const (
	inLine    escapeState = iota
	lineBegin             // the next key may be the escape character
	escaped               // the last key was the escape character
)

// DefaultEscape is the escape character of ssh.
const DefaultEscape = "~"

// ErrEscape means that the user has typed the escape keys.
var ErrEscape = errors.New("left")

func newEscape(char byte) *Escape { return &Escape{char, lineBegin} }

// filter returns the input to pass on, and whether the user disconnects.
func (e *Escape) filter(typed []byte) (pass []byte, leave bool) {
	if e == nil {
		return typed, false
	}
	pass = make([]byte, 0, len(typed)+1)
	for _, c := range typed {
		switch {
		case e.state == lineBegin && c == e.char:
			e.state = escaped
			continue
		case e.state == escaped && c == '.':
			return pass, true
		case e.state == escaped && c != e.char:
			pass = append(pass, e.char)
		}
		pass = append(pass, c)
		e.state = inLine
		if c == '\r' || c == '\n' {
			e.state = lineBegin
		}
	}
	return pass, false
}

// ParseEscape reads one character. For the word none it returns nil: then there are no escape keys.
func ParseEscape(text string) (*Escape, error) {
	switch {
	case text == "none":
		return nil, nil
	case len(text) == 1 && text[0] > ' ' && text[0] < 0x7f && text[0] != '.':
		return newEscape(text[0]), nil
	}
	return nil, errors.New("expected one character, or none")
}

// FeedSize is how much input is read at once.
const FeedSize = 32 << 10

// typedAhead is how many pieces of typed input may wait for a command that does not read,
// or for a connection. Input has to be read ahead to find the escape keys.
const typedAhead = 1024

// A keyboard passes on standard input to the command.
type keyboard struct {
	in     io.ReadCloser
	escape *Escape       // nil: everything is passed on
	leave  chan error    // gets ErrEscape
	typed  chan []byte   // input for the command
	gone   chan struct{} // closed when the command takes no more input
	tasks  sync.WaitGroup
}

// newKeyboard passes input on until it ends, the command takes no more, or the user types the escape
// keys, which sends ErrEscape on leave. At the end of the input it calls atEnd.
func newKeyboard(stdin *os.File, e *Escape, to io.Writer, atEnd func() error) *keyboard {
	k := &keyboard{in: InterruptibleReader(stdin), escape: e, leave: make(chan error, 1), gone: make(chan struct{})}
	if e != nil {
		k.typed = make(chan []byte, typedAhead)
	} else {
		k.typed = make(chan []byte) // a pipe is read only as fast as the command reads
	}
	k.tasks.Go(k.read) // ends with the input, or when stop closes it
	k.tasks.Go(func() { k.write(to, atEnd) })
	return k
}

func (k *keyboard) read() {
	defer close(k.typed)
	buf := make([]byte, FeedSize)
	for {
		n, err := k.in.Read(buf)
		pass, leave := k.escape.filter(buf[:n])
		if len(pass) > 0 {
			select {
			case k.typed <- bytes.Clone(pass):
			case <-k.gone:
				return
			}
		}
		if leave {
			k.leave <- ErrEscape
		}
		if leave || err != nil {
			return
		}
	}
}

func (k *keyboard) write(to io.Writer, atEnd func() error) {
	defer close(k.gone)
	for pass := range k.typed {
		if _, err := to.Write(pass); err != nil {
			return
		}
	}
	atEnd() // fails only if the command has closed its input
}

// stop ends the reading. Writing ends with the process or the client; wait waits for
// both.
func (k *keyboard) stop() { k.in.Close() }
func (k *keyboard) wait() { k.tasks.Wait() }

// WriterFunc makes a writer of a function that takes a context.
type WriterFunc func(context.Context, []byte) error

func (w WriterFunc) Write(b []byte) (int, error) {
	if err := w(context.Background(), b); err != nil {
		return 0, err
	}
	return len(b), nil
}
