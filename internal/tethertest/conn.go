package tethertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
)

// A Conn is a raw connection to a server, over a WebSocket or one message per line. It
// sends any message, keeps the messages that arrive until they are taken, and checks and
// repairs nothing. Its methods may be called concurrently. They return errors; those of
// Client end the test instead.
type Conn struct {
	link   link
	handle Handler
	ended  chan struct{} // closed when the reader has ended, after err was set

	lastID  atomic.Int64
	arrived int // messages so far; of the reader

	mu      sync.Mutex
	queue   []Message     // not taken yet, in order of arrival
	changed chan struct{} // closed and replaced with every arrival, and at the end
	err     error         // why nothing arrives any more
}

// A link carries whole messages. send may be called concurrently.
type link interface {
	send(message []byte) error
	receive() ([]byte, error)
	close() error
}

// A Message is one message of the server.
type Message struct {
	Raw    json.RawMessage `json:"-"`
	Number int             `json:"-"` // of its arrival, from 1
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
}

// Answers reports whether the message answers the request with this id, as JSON text.
func (m Message) Answers(id string) bool { return m.Method == "" && string(m.ID) == id }

// A Handler is called by the reader of a connection with each message, in order of arrival.
// A message that it takes is not kept. It may send, but must not wait for the connection.
type Handler func(c *Conn, m Message) (taken bool)

// NewConn begins to read from a WebSocket. handle may be nil.
func NewConn(ws *WS, handle Handler) *Conn { return newConn(wsLink{ws}, handle) }

// NewLinesConn is NewConn for one message per line, such as on the standard input and
// output of a program.
func NewLinesConn(r io.ReadCloser, w io.WriteCloser, handle Handler) *Conn {
	return newConn(newLines(r, w), handle)
}

func newConn(l link, handle Handler) *Conn {
	if handle == nil {
		handle = func(*Conn, Message) bool { return false }
	}
	c := &Conn{link: l, handle: handle, ended: make(chan struct{}), changed: make(chan struct{})}
	go c.read() // ends with the connection; Close waits for it
	return c
}

// read takes in what arrives until the connection ends.
func (c *Conn) read() {
	defer close(c.ended)
	for {
		m, err := c.receive()
		if err != nil {
			c.Drop(err)
			return
		}
		taken := c.handle(c, m)
		c.mu.Lock()
		if !taken {
			c.queue = append(c.queue, m)
		}
		c.signalLocked()
		c.mu.Unlock()
	}
}

func (c *Conn) receive() (m Message, err error) {
	raw, err := c.link.receive()
	if err != nil {
		return m, err
	}
	if err := decodeMessage(raw, &m); err != nil {
		return m, fmt.Errorf("message %.100q: %w", raw, err)
	}
	c.arrived++
	m.Raw, m.Number = raw, c.arrived
	return m, nil
}

func (c *Conn) signalLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Drop ends the connection without a close frame and does not wait for the reader. Waiting calls fail with err, unless the
// connection has ended before.
func (c *Conn) Drop(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
		c.signalLocked()
	}
	c.mu.Unlock()
	c.link.close()
}

// Close ends the connection without a close frame and waits for the reader.
func (c *Conn) Close() {
	c.link.close()
	<-c.ended
}

// Ended is closed when the connection has ended and its last message was handled.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// Err returns the reason for the end of the connection; nil: it has not ended.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Send sends a text as it is.
func (c *Conn) Send(text string) error { return c.link.send([]byte(text)) }

// SendJSON sends a message.
func (c *Conn) SendJSON(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return c.link.send(text)
}

// Notify sends a notification.
func (c *Conn) Notify(method string, params any) error {
	return c.SendJSON(map[string]any{"method": method, "params": params})
}

// Ask sends a request and returns its id.
func (c *Conn) Ask(method string, params any) (int64, error) {
	id := c.lastID.Add(1)
	return id, c.SendJSON(map[string]any{"id": id, "method": method, "params": params})
}

// Answer waits for the answer to a request and takes it.
func (c *Conn) Answer(ctx context.Context, id int64) (Message, error) {
	text := strconv.FormatInt(id, 10)
	return c.Take(ctx, func(m Message) bool { return m.Answers(text) })
}

// Call sends a request, waits for the answer and decodes its result. An error of the
// server is an *RPCError.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	id, err := c.Ask(method, params)
	if err != nil {
		return err
	}
	m, err := c.Answer(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("no answer to %s: %w", method, err)
	case m.Error != nil:
		return m.Error
	case result == nil:
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

// Take waits for the first message for which match is true and takes it; the others stay.
func (c *Conn) Take(ctx context.Context, match func(Message) bool) (m Message, err error) {
	seen := 0
	err = c.Wait(ctx, func() (found bool) {
		m, seen, found = c.find(seen, match)
		return found
	})
	return m, err
}

// find takes the first message above number seen that matches, or returns the number up to
// which it has looked.
func (c *Conn) find(seen int, match func(Message) bool) (m Message, looked int, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := sort.Search(len(c.queue), func(i int) bool { return c.queue[i].Number > seen }); i < len(c.queue); i++ {
		if m = c.queue[i]; !match(m) {
			seen = m.Number
			continue
		}
		if i == 0 {
			c.queue = c.queue[1:] // the usual case; deleting from a long queue would copy it
		} else {
			c.queue = slices.Delete(c.queue, i, i+1)
		}
		return m, seen, true
	}
	return Message{}, seen, false
}

// Kept returns the messages that were not taken yet, in order of arrival.
func (c *Conn) Kept() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.queue)
}

// Wait waits until met is true, which it asks now and after each arrival. It fails with
// the cause of ctx, or with the end of the connection if met is false after that.
func (c *Conn) Wait(ctx context.Context, met func() bool) error {
	for {
		c.mu.Lock()
		err, changed := c.err, c.changed
		c.mu.Unlock()
		switch {
		case met():
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// wsLink sends one text frame per message.
type wsLink struct{ *WS }

func (l wsLink) send(message []byte) error { return l.WriteText(message) }
func (l wsLink) close() error              { return l.Close() }
func (l wsLink) receive() ([]byte, error) {
	_, message, err := l.Read()
	return message, err
}

// linesLink sends one line per message.
type linesLink struct {
	in       *bufio.Reader
	src, dst io.Closer

	mu  sync.Mutex
	out io.Writer
}

func newLines(r io.ReadCloser, w io.WriteCloser) *linesLink {
	return &linesLink{in: bufio.NewReaderSize(r, 1<<20), src: r, dst: w, out: w}
}

func (l *linesLink) send(message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.out.Write(append(bytes.Clone(message), '\n'))
	return err
}

func (l *linesLink) receive() ([]byte, error) {
	line, err := l.in.ReadBytes('\n')
	return bytes.TrimSuffix(line, []byte("\n")), err
}

func (l *linesLink) close() error {
	l.dst.Close()
	return l.src.Close()
}
