package tethertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/hang"
)

// timeLimit bounds each wait for an event that must happen. It is long enough for a busy machine.
const timeLimit = hang.Limit

// A Client is a Conn for the goroutine of a test. Its methods end the test if they fail or wait for too long.
type Client struct {
	t    testing.TB
	conn *Conn
}

// Dial connects to a ws:// URL and leaves the handshake to the test.
func Dial(t testing.TB, url string) *Client {
	t.Helper()
	return DialToken(t, url, "")
}

// DialToken is Dial with a token; "": without one.
func DialToken(t testing.TB, url, token string) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	var header http.Header
	if token != "" {
		header = http.Header{"Authorization": {"Bearer " + token}}
	}
	ws, err := DialWS(ctx, url, header)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, NewConn(ws, nil))
}

// NewClient returns a client on a connection that needs no upgrade.
func NewClient(t testing.TB, conn net.Conn) *Client {
	return newClient(t, NewConn(&WS{conn: conn, in: bufio.NewReader(conn)}, nil))
}

// NewLines returns a client that speaks one message per line, such as on the standard
// input and output of a program.
func NewLines(t testing.TB, r io.ReadCloser, w io.WriteCloser) *Client {
	return newClient(t, NewLinesConn(r, w, nil))
}

func newClient(t testing.TB, conn *Conn) *Client {
	t.Cleanup(conn.Close)
	return &Client{t: t, conn: conn}
}

// Connect dials and begins a session.
func Connect(t testing.TB, url string) *Client {
	t.Helper()
	c := Dial(t, url)
	c.Handshake("")
	return c
}

// Close drops the connection.
func (c *Client) Close() { c.conn.Close() }

// WS is the connection itself, for frames that are not messages.
func (c *Client) WS() *WS { return c.conn.link.(wsLink).WS }

// Hello is the result of the handshake.
type Hello struct {
	SessionID string `json:"sessionId"`
	Tether    struct {
		PublicID string `json:"publicId"`
		TTLMs    int64  `json:"ttlMs"`
		ReadOnly bool   `json:"readOnly"`
		Admin    bool   `json:"admin"`
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

// Send sends a text as it is.
func (c *Client) Send(raw string) {
	c.t.Helper()
	c.sent(raw, c.conn.Send(raw))
}

// SendBytes sends bytes below the framing, over WebSocket.
func (c *Client) SendBytes(b []byte) {
	c.t.Helper()
	c.sent("bytes", c.WS().WriteRaw(b))
}

// Notify sends a notification.
func (c *Client) Notify(method string, params any) {
	c.t.Helper()
	c.sent(method, c.conn.Notify(method, params))
}

// Ask sends a request and returns its id.
func (c *Client) Ask(method string, params any) int64 {
	c.t.Helper()
	id, err := c.conn.Ask(method, params)
	c.sent(method, err)
	return id
}

func (c *Client) sent(what string, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("send %.100s: %v", what, err)
	}
}

// Answer waits for the answer to a request.
func (c *Client) Answer(id int64) Message {
	c.t.Helper()
	want := fmt.Sprint(id)
	return c.Await("answer "+want, func(m Message) bool { return m.Answers(want) })
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
	m, err := c.AwaitFor(timeLimit, match)
	if err != nil {
		c.t.Fatalf("waiting for %s: %v", what, err)
	}
	return m
}

// AwaitFor is Await with a time limit of its own. It returns an error instead of ending the test.
func (c *Client) AwaitFor(d time.Duration, match func(Message) bool) (Message, error) {
	ctx, cancel := waitingFor(d)
	defer cancel()
	return c.conn.Take(ctx, match)
}

func waitingFor(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.Background(), d, fmt.Errorf("nothing within %v", d))
}

// Next takes the oldest message.
func (c *Client) Next() Message {
	c.t.Helper()
	return c.Await("a message", func(Message) bool { return true })
}

// Ended waits until the server has ended the connection, and returns how.
func (c *Client) Ended() error {
	c.t.Helper()
	select {
	case <-c.conn.Ended():
	case <-time.After(timeLimit):
		c.t.Fatalf("the connection did not end within %v", timeLimit)
	}
	return c.conn.Err()
}
