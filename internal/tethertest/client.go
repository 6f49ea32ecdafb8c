package tethertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen, on a busy machine.
const patience = 30 * time.Second

// A Client exchanges raw JSON messages with a server. It checks nothing and
// repairs nothing. Its methods are for the goroutine of the test, which they end
// when what they wait for does not come.
type Client struct {
	t    testing.TB
	link link
	wg   sync.WaitGroup

	lastID int64

	mu      sync.Mutex
	queue   []Message     // arrived and not taken yet
	changed chan struct{} // closed and replaced with every arrival, and at the end
	err     error         // why nothing arrives any more
}

// A link carries whole messages.
type link interface {
	send(message []byte) error
	receive() ([]byte, error)
	close() error
}

// A Message is what the server has sent.
type Message struct {
	Raw    json.RawMessage `json:"-"`
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
}

// Dial connects to a ws:// URL and leaves the handshake to the test.
func Dial(t testing.TB, url string) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ws, err := DialWS(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, wsLink{ws})
}

func newClient(t testing.TB, l link) *Client {
	c := &Client{t: t, link: l, changed: make(chan struct{})}
	c.wg.Go(c.read) // ends with the connection
	t.Cleanup(c.Close)
	return c
}

// Connect dials and begins a session.
func Connect(t testing.TB, url string) *Client {
	t.Helper()
	c := Dial(t, url)
	c.Handshake("")
	return c
}

// Close drops the connection.
func (c *Client) Close() {
	c.link.close()
	c.wg.Wait()
}

// WS is the connection itself, for frames that are not messages.
func (c *Client) WS() *WS { return c.link.(wsLink).WS }

// Hello is what the handshake has given.
type Hello struct {
	SessionID string `json:"sessionId"`
	Tether    struct {
		PublicID string `json:"publicId"`
		TTLMs    int64  `json:"ttlMs"`
	} `json:"tether"`
}

// Handshake begins a session, or resumes one.
func (c *Client) Handshake(resume string) Hello {
	c.t.Helper()
	params := map[string]any{"clientName": "test", "resumeSessionId": nil}
	if resume != "" {
		params["resumeSessionId"] = resume
	}
	return c.HandshakeWith(params)
}

// HandshakeWith begins with these parameters.
func (c *Client) HandshakeWith(params any) Hello {
	c.t.Helper()
	var hello Hello
	c.Must("initialize", params, &hello)
	c.Notify("initialized", struct{}{})
	return hello
}

// Send sends a message as it is.
func (c *Client) Send(raw string) {
	c.t.Helper()
	if err := c.link.send([]byte(raw)); err != nil {
		c.t.Fatalf("send %.100s: %v", raw, err)
	}
}

// SendBytes sends bytes below the framing, over WebSocket.
func (c *Client) SendBytes(b []byte) {
	c.t.Helper()
	if _, err := c.WS().conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) {
	c.t.Helper()
	c.sendJSON(map[string]any{"method": method, "params": params})
}

// Ask sends a request and returns its id.
func (c *Client) Ask(method string, params any) int64 {
	c.t.Helper()
	c.lastID++
	c.sendJSON(map[string]any{"id": c.lastID, "method": method, "params": params})
	return c.lastID
}

func (c *Client) sendJSON(v any) {
	c.t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		c.t.Fatal(err)
	}
	c.Send(string(text))
}

// Answer waits for the answer to a request.
func (c *Client) Answer(id int64) Message {
	c.t.Helper()
	want := fmt.Sprint(id)
	return c.Await("answer "+want, func(m Message) bool { return m.Method == "" && string(m.ID) == want })
}

// Call asks and waits for the answer.
func (c *Client) Call(method string, params any) Message {
	c.t.Helper()
	return c.Answer(c.Ask(method, params))
}

// Must asks, and ends the test if the answer is an error.
func (c *Client) Must(method string, params, result any) {
	c.t.Helper()
	m := c.Call(method, params)
	if m.Error != nil {
		c.t.Fatalf("%s: %v", method, m.Error)
	}
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			c.t.Fatalf("%s: %v", method, err)
		}
	}
}

// Await takes the first message for which match is true; the others stay.
func (c *Client) Await(what string, match func(Message) bool) Message {
	c.t.Helper()
	m, err := c.AwaitFor(patience, match)
	if err != nil {
		c.t.Fatalf("waiting for %s: %v", what, err)
	}
	return m
}

// AwaitFor is Await with a time of its own and without the consequences.
func (c *Client) AwaitFor(d time.Duration, match func(Message) bool) (Message, error) {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	for seen := 0; ; {
		c.mu.Lock()
		for i := seen; i < len(c.queue); i++ {
			if m := c.queue[i]; match(m) {
				if i == 0 {
					c.queue = c.queue[1:]
				} else {
					c.queue = append(c.queue[:i], c.queue[i+1:]...)
				}
				c.mu.Unlock()
				return m, nil
			}
		}
		seen = len(c.queue)
		err, changed := c.err, c.changed
		c.mu.Unlock()
		if err != nil {
			return Message{}, err
		}
		select {
		case <-changed:
		case <-timeout.C:
			return Message{}, fmt.Errorf("nothing within %v", d)
		}
	}
}

// Next takes the oldest message.
func (c *Client) Next() Message {
	c.t.Helper()
	return c.Await("a message", func(Message) bool { return true })
}

// Ended waits until the server has ended the connection, and returns how.
func (c *Client) Ended() error {
	c.t.Helper()
	c.wait(func() bool { return c.err != nil })
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// wait waits for a condition that is guarded by the client.
func (c *Client) wait(met func() bool) {
	c.t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		c.mu.Lock()
		ok, changed := met(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			c.t.Fatalf("the connection did not end within %v", patience)
		}
	}
}

func (c *Client) read() {
	for {
		raw, err := c.link.receive()
		var m Message
		if err == nil {
			if err = json.Unmarshal(raw, &m); err != nil {
				err = fmt.Errorf("message %.100q: %w", raw, err)
			}
		}
		m.Raw = raw
		c.mu.Lock()
		if err != nil {
			c.err = err
		} else {
			c.queue = append(c.queue, m)
		}
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			c.link.close()
			return
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
	out      io.Writer
}

func newLines(r io.ReadCloser, w io.WriteCloser) *linesLink {
	return &linesLink{in: bufio.NewReaderSize(r, 1<<20), src: r, dst: w, out: w}
}

func (l *linesLink) send(message []byte) error {
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
