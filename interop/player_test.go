//go:build interop

package interop_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// timeLimit is how long an answer may take before its absence is recorded. No exchange relies on it: it is long enough for a busy
// machine.
const timeLimit = 30 * time.Second

// An observation is one thing a server did, in comparable form.
type observation struct{ label, value string }

// A player plays one exchange with one server and records observations. A missing answer does not end the test: it is an observation
// too.
type player struct {
	t      testing.TB
	who    product
	flags  []string // of the server
	server *server
	log    []observation
	conns  []*conn
}

// note records one observation. Labels are made unique, so that two runs can be
// compared label by label.
func (p *player) note(label string, value any) {
	text, ok := value.(string)
	if !ok {
		text = canonical(value)
	}
	p.log = append(p.log, observation{fmt.Sprintf("%03d %s", len(p.log)+1, label), normalise(text)})
}

// close closes the connections that the exchange left open.
func (p *player) close() {
	for _, c := range p.conns {
		c.Close()
	}
}

// A conn is one WebSocket connection of a player, with its messages sorted by subject.
type conn struct {
	*tethertest.Conn
	p       *player
	ws      *tethertest.WS
	nextID  int
	session string

	mu      sync.Mutex
	replies map[string][]json.RawMessage // by id as JSON text
	events  map[string][]processEvent    // by process, in order of arrival
	network []networkMessage             // in order of arrival
	decide  func(networkMessage) string  // see decideBy
}

// processEvent is one of the three process notifications.
type processEvent struct {
	Method string
	Params struct {
		ProcessID     string  `json:"processId"`
		Seq           int     `json:"seq"`
		Stream        string  `json:"stream"`
		Chunk         []byte  `json:"chunk"`
		ExitCode      *int    `json:"exitCode"`
		SandboxDenied *bool   `json:"sandboxDenied"`
		Extra         *string `json:"-"`
	}
}

// dial opens a connection without any handshake of the protocol.
func (p *player) dial(header ...string) *conn {
	p.t.Helper()
	c, err := p.tryDial(header...)
	if err != nil {
		p.t.Fatalf("%s: %v", p.who, err)
	}
	return c
}

func (p *player) tryDial(header ...string) (*conn, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), timeLimit)
	defer cancel()
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h[header[i]] = append(h[header[i]], header[i+1])
	}
	ws, err := tethertest.DialWS(ctx, p.server.url, h)
	if err != nil {
		return nil, err
	}
	c := &conn{p: p, ws: ws, replies: map[string][]json.RawMessage{}, events: map[string][]processEvent{}}
	c.Conn = tethertest.NewConn(ws, c.handle)
	p.conns = append(p.conns, c)
	return c, nil
}

// open dials and completes the handshake.
func (p *player) open() *conn {
	p.t.Helper()
	c := p.dial()
	c.initialize("")
	c.text(`{"method":"initialized","params":{}}`)
	return c
}

// initialize sends initialize, resuming a session if one is named, and returns
// the error of the answer, if any.
func (c *conn) initialize(resume string) string {
	c.p.t.Helper()
	params := map[string]any{"clientName": "interop", "resumeSessionId": nil}
	if resume != "" {
		params["resumeSessionId"] = resume
	}
	answer := c.call("initialize", canonical(params))
	var m struct {
		Result struct {
			SessionID string `json:"sessionId"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	json.Unmarshal([]byte(answer), &m)
	c.session = m.Result.SessionID
	return string(m.Error)
}

// handle sorts a message.
func (c *conn) handle(_ *tethertest.Conn, m tethertest.Message) (taken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Method == "":
		c.replies[string(m.ID)] = append(c.replies[string(m.ID)], m.Raw)
	case strings.HasPrefix(m.Method, "network/"):
		c.networkLocked(networkMessage{m.ID, m.Method, m.Params})
	default:
		e := processEvent{Method: m.Method}
		json.Unmarshal(m.Params, &e.Params)
		c.events[e.Params.ProcessID] = append(c.events[e.Params.ProcessID], e)
	}
	return true
}

// decideBy sets the function that answers the server's questions about hosts. The reader of the connection calls it; an empty answer
// is not sent.
func (c *conn) decideBy(decide func(networkMessage) string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decide = decide
}

// await waits until ok holds, which is called with the lock held. It returns false
// when the time is over or the connection has ended.
func (c *conn) await(limit time.Duration, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return c.Wait(ctx, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return ok()
	}) == nil
}

// awaitEnd waits until the server has ended the connection.
func (c *conn) awaitEnd() { c.await(timeLimit, func() bool { return false }) }

// text sends one text frame.
func (c *conn) text(message string) { c.Send(expand(message)) }

// frame sends one frame as it is.
func (c *conn) frame(first byte, masked bool, payload string) {
	c.ws.WriteFrame(first, masked, []byte(payload))
}

// answer waits for the next reply to one of the ids (as JSON texts) and returns it
// raw.
func (c *conn) answer(ids ...string) string {
	var got json.RawMessage
	ok := c.await(timeLimit, func() bool {
		for _, id := range ids {
			if q := c.replies[id]; len(q) > 0 {
				got, c.replies[id] = q[0], q[1:]
				return true
			}
		}
		return false
	})
	switch {
	case ok:
		return string(got)
	case c.Err() != nil:
		return "connection ended: " + describeEnd(c.Err())
	}
	return "no answer"
}

// send sends a request with the next id and returns the id.
func (c *conn) send(method, params string) string {
	c.nextID++
	c.text(fmt.Sprintf(`{"id":%d,"method":%q,"params":%s}`, c.nextID, method, params))
	return fmt.Sprint(c.nextID)
}

// call sends a request and returns the answer without recording it.
func (c *conn) call(method, params string) string { return c.answer(c.send(method, params)) }

// ask sends a request and records the answer.
func (c *conn) ask(label, method, params string) string {
	got := c.call(method, params)
	c.p.note(label, withoutID(got))
	return got
}

// tell sends a raw text message and records the answer to id.
func (c *conn) tell(label, message, id string) {
	c.text(message)
	c.p.note(label, c.answer(id))
}

// alive records whether the connection still answers.
func (c *conn) alive(label string) {
	c.text(`{"id":"alive?","method":"no/such","params":null}`)
	got := c.answer(`"alive?"`)
	if strings.Contains(got, "-32601") {
		got = "alive"
	}
	c.p.note(label, got)
}

// end records how the connection ends.
func (c *conn) end(label string) {
	c.awaitEnd()
	if c.Err() == nil {
		c.p.note(label, "stays open")
		return
	}
	c.p.note(label, describeEnd(c.Err()))
}

func describeEnd(err error) string {
	if closed, ok := errors.AsType[*tethertest.CloseError](err); ok {
		return fmt.Sprintf("close frame %d", closed.Code)
	}
	return "closed without a frame"
}

// start starts a process that must start; extra is more JSON members.
func (c *conn) start(id string, argv []string, extra string) {
	c.p.t.Helper()
	if got := c.call("process/start", startParams(id, argv, extra)); !strings.Contains(got, `"result"`) {
		c.p.t.Errorf("%s: start %s: %s", c.p.who, id, got)
	}
}

// startParams makes the params of a plain start; members in extra win.
func startParams(id string, argv []string, extra string) string {
	fields := map[string]any{}
	base := map[string]any{"processId": id, "argv": argv, "cwd": "$CWD", "tty": false,
		"env": map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}}
	for k, v := range base {
		fields[k] = v
	}
	if extra != "" {
		over := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte("{"+extra+"}"), &over); err != nil {
			panic("startParams: " + extra + ": " + err.Error())
		}
		for k, v := range over {
			fields[k] = v
		}
	}
	return canonical(fields)
}

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

// write sends text to stdin without recording the answer and waits for it.
func (c *conn) write(id, writeID, text string) string {
	return c.call("process/write", fmt.Sprintf(`{"processId":%q,"writeId":%q,"chunk":%q}`,
		id, writeID, base64.StdEncoding.EncodeToString([]byte(text))))
}

// seen waits until the process's output contains text.
func (c *conn) seen(id, text string) {
	c.p.t.Helper()
	if !c.await(timeLimit, func() bool { return strings.Contains(outputOf(c.events[id], ""), text) }) {
		c.p.t.Errorf("%s: process %s never printed %q", c.p.who, id, text)
	}
}

// gone waits for the exited (or closed) event of a process.
func (c *conn) gone(id, method string) {
	c.p.t.Helper()
	ok := c.await(timeLimit, func() bool {
		for _, e := range c.events[id] {
			if e.Method == method {
				return true
			}
		}
		return false
	})
	if !ok {
		c.p.t.Errorf("%s: no %s of process %s", c.p.who, method, id)
	}
}

// process waits for the end of a process and records its output per stream, exit
// and the soundness of its numbers.
func (c *conn) process(label, id string) {
	events, closed := c.all(id)
	c.p.note(label, summarise(events, closed))
}

// all waits for the end of a process and returns its events in order of arrival, which need not be the order of their numbers. So it
// also waits for events that arrive after closed.
func (c *conn) all(id string) (events []processEvent, closed bool) {
	closed = c.await(timeLimit, func() bool {
		last := 0
		for _, e := range c.events[id] {
			if e.Method == "process/closed" {
				last = e.Params.Seq
			}
		}
		return last > 0 && len(c.events[id]) >= last
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]processEvent(nil), c.events[id]...), closed
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// readReply is an answer to process/read.
type readReply struct {
	Result struct {
		Chunks []struct {
			Seq    int    `json:"seq"`
			Stream string `json:"stream"`
			Chunk  []byte `json:"chunk"`
		} `json:"chunks"`
		NextSeq int  `json:"nextSeq"`
		Exited  bool `json:"exited"`
		Closed  bool `json:"closed"`
	} `json:"result"`
}

func decodeRead(reply string) (r readReply) {
	json.Unmarshal([]byte(reply), &r)
	return r
}
