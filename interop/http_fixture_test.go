//go:build interop

package interop_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// whatWasRead is the comparison of requests without a process.
const whatWasRead comparison = "replies with the texts of errors; the bytes of HTTP requests; notifications"

// headersInAnyOrder is the comparison of HTTP requests: net/http has its own order of headers.
const headersInAnyOrder comparison = "as whatWasRead, but for the order of headers and the case of their names"

// sortHeaders sorts the headers of HTTP requests, and of answers in JSON, in an observation.
func sortHeaders(value string) string {
	var v any
	if json.Unmarshal([]byte(value), &v) != nil {
		return value
	}
	return canonical(withSortedHeaders(v))
}

func withSortedHeaders(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			v[key] = withSortedHeaders(member)
			if headers, ok := v[key].([]any); ok && key == "headers" {
				slices.SortStableFunc(headers, func(a, b any) int {
					return strings.Compare(fmt.Sprint(a.(map[string]any)["name"]), fmt.Sprint(b.(map[string]any)["name"]))
				})
			}
		}
	case []any:
		for i := range v {
			v[i] = withSortedHeaders(v[i])
		}
	case string:
		head, body, ok := strings.Cut(v, "\r\n\r\n")
		first, fields, more := strings.Cut(head, "\r\n")
		if !ok || !more || !strings.HasSuffix(first, " HTTP/1.1") {
			return v
		}
		lines := strings.Split(fields, "\r\n")
		for i, line := range lines {
			name, value, _ := strings.Cut(line, ":")
			lines[i] = strings.ToLower(name) + ":" + value
		}
		slices.SortStableFunc(lines, func(a, b string) int {
			a, _, _ = strings.Cut(a, ":")
			b, _, _ = strings.Cut(b, ":")
			return strings.Compare(a, b)
		})
		return first + "\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n" + body
	}
	return v
}

// playBoth is run for an exchange whose server start makes.
func playBoth(t *testing.T, x exchange, start func(t testing.TB, who product) *server) {
	t.Helper()
	x.start = start
	x.run(t)
}

// shared returns the shared server without flags.
func shared(t testing.TB, who product) *server { return sharedServer(t, who) }

// serverWith starts servers of the exchange's own. change may alter the command.
func serverWith(change func(t testing.TB, cmd *exec.Cmd)) func(t testing.TB, who product) *server {
	return func(t testing.TB, who product) *server {
		cmd := command(t, who, "--listen", "ws://127.0.0.1:0")
		change(t, cmd)
		s := startCommand(t, who, cmd)
		t.Cleanup(s.stop)
		return s
	}
}

// A caller is a connection that keeps every notification unchanged.
type caller struct {
	*tethertest.Conn
	came map[int64]int // number of each answer among all messages
}

// caller opens one and completes the handshake.
func (p *player) caller() *caller {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), timeLimit)
	defer cancel()
	ws, err := tethertest.DialWS(ctx, p.server.url, nil)
	if err != nil {
		p.t.Fatalf("%s: %v", p.who, err)
	}
	c := &caller{tethertest.NewConn(ws, nil), map[int64]int{}}
	p.t.Cleanup(c.Close)
	c.call("initialize", map[string]any{"clientName": "interop"})
	c.Notify("initialized", map[string]any{})
	return c
}

// send sends a request and returns its id. If sending fails, there is no answer.
func (c *caller) send(method string, params any) int64 {
	id, _ := c.Ask(method, params)
	return id
}

// answer waits for the reply and returns it without its id.
func (c *caller) answer(id int64) string {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	m, err := c.Answer(ctx, id)
	if err != nil {
		return fmt.Sprintf("no answer (connection: %v)", c.Err())
	}
	c.came[id] = m.Number
	return withoutID(string(m.Raw))
}

func (c *caller) call(method string, params any) string { return c.answer(c.send(method, params)) }

// await waits until ok holds; false: the time is over or the connection has ended.
func (c *caller) await(ok func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	return c.Wait(ctx, ok) == nil
}

// An origin is a web server on loopback that answers with given bytes and keeps
// the bytes of every request.
type origin struct {
	listener  net.Listener
	port      string
	accepting sync.WaitGroup
	serving   sync.WaitGroup

	mu    sync.Mutex
	got   []string
	reply func(head string) any // a string, or a func(net.Conn)
	stays bool                  // connections stay open after an answer
	open  map[net.Conn]bool
}

// tlsHandshake is the first byte of a client that wants TLS.
const tlsHandshake = 0x16

const okAnswer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"

func newOrigin(t testing.TB) *origin {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{listener: l, open: map[net.Conn]bool{}}
	_, o.port, _ = net.SplitHostPort(l.Addr().String())
	o.accepting.Go(func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			o.mu.Lock()
			o.open[conn] = true
			o.mu.Unlock()
			o.serving.Go(func() { o.serve(conn) }) // ends with the connection
		}
	})
	t.Cleanup(o.close)
	return o
}

func (o *origin) close() {
	o.listener.Close()
	o.accepting.Wait() // after this no connection is added
	o.mu.Lock()
	for c := range o.open {
		c.Close()
	}
	o.mu.Unlock()
	o.serving.Wait()
}

// answers sets the answers to the next requests and forgets earlier requests.
func (o *origin) answers(reply func(head string) any, stays bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reply, o.stays, o.got = reply, stays, nil
}

// requests returns the requests since the last call of answers.
func (o *origin) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.got)
}

func (o *origin) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		o.mu.Lock()
		delete(o.open, conn)
		o.mu.Unlock()
	}()
	in := bufio.NewReader(conn)
	if first, err := in.Peek(1); err != nil || first[0] == tlsHandshake {
		return
	}
	for {
		request, head, err := readRequest(in)
		o.mu.Lock()
		if request != "" {
			o.got = append(o.got, request)
		}
		reply, stays := o.reply, o.stays
		o.mu.Unlock()
		if err != nil {
			return
		}
		var answer any = okAnswer
		if reply != nil {
			answer = reply(head)
		}
		switch answer := answer.(type) {
		case string:
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		case func(net.Conn):
			answer(conn)
		}
		if !stays {
			return
		}
	}
}

// readRequest reads one request without changes; of chunked bodies up to the last chunk. Of a long body it keeps length and sum.
func readRequest(in *bufio.Reader) (request, head string, err error) {
	var b strings.Builder
	length, chunked := 0, false
	for {
		line, err := in.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			return b.String(), "", err
		}
		if line == "\r\n" {
			break
		}
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
		switch strings.ToLower(name) {
		case "content-length":
			length, _ = strconv.Atoi(value)
		case "transfer-encoding":
			chunked = true
		}
	}
	head = b.String()
	if !chunked {
		body := make([]byte, length)
		n, err := io.ReadFull(in, body)
		return head + shorten(string(body[:n])), head, err
	}
	for !strings.HasSuffix(b.String(), "\r\n0\r\n\r\n") {
		c, err := in.ReadByte()
		if err != nil {
			return b.String(), head, err
		}
		b.WriteByte(c)
	}
	return b.String(), head, nil
}

// A web is the two origins of an exchange and the connection that asks.
type web struct {
	p           *player
	c           *caller
	self, other *origin
	n           int  // of the last request id
	closing     bool // self closes its connections some time after an answer

	// clocks is for requests that time out before a head has arrived: the reference has two timers for that, and chance
	// decides which one fires first.
	clocks bool
}

func newWeb(p *player) *web {
	return &web{p: p, c: p.caller(), self: newOrigin(p.t), other: newOrigin(p.t)}
}

// plain replaces the ports in an observation by names.
func (w *web) plain(s string) string {
	if w.clocks && w.p.who == ref {
		s = strings.ReplaceAll(s, "route-aware request timed out", w.expand("error sending request for url (http://SELF/)"))
	}
	return strings.NewReplacer(":"+w.self.port, ":SELF", ":"+w.other.port, ":OTHER").Replace(s)
}

// expand replaces the names by ports.
func (w *web) expand(s string) string {
	return strings.NewReplacer("SELF", "127.0.0.1:"+w.self.port, "OTHER", "127.0.0.1:"+w.other.port,
		"PORT", w.self.port).Replace(s)
}

// A get is one http/request. Texts may hold SELF, OTHER and PORT.
type get struct {
	label   string
	method  string // GET unless said
	url     string // http://SELF/ unless said
	headers []string
	body    *string
	more    map[string]any
	reply   string // what the origin sends, okAnswer unless said
	act     func(head string) any
	closes  bool // the origin closes after its answer
}

func (g get) params(w *web) map[string]any {
	w.n++
	m := map[string]any{"method": "GET", "url": "http://SELF/", "requestId": fmt.Sprintf("r%d", w.n)}
	if g.method != "" {
		m["method"] = g.method
	}
	if g.url != "" {
		m["url"] = g.url
	}
	if g.url == "-" {
		m["url"] = ""
	}
	m["url"] = w.expand(m["url"].(string))
	headers := []map[string]any{}
	for i := 0; i+1 < len(g.headers); i += 2 {
		h := map[string]any{"name": g.headers[i], "value": g.headers[i+1]}
		if value, variable, ok := strings.Cut(g.headers[i+1], "$$"); ok {
			h["value"], h["valueEnvVar"] = value, variable
		}
		headers = append(headers, h)
	}
	m["headers"] = headers
	if g.body != nil {
		m["bodyBase64"] = base64Of(*g.body)
	}
	for k, v := range g.more {
		m[k] = v
	}
	return m
}

// prepare sets up the origins.
func (g get) prepare(w *web) {
	if g.closes || w.closing { // a connection that is about to close must not serve the next request
		w.self = newOrigin(w.p.t)
	}
	w.closing = g.closes
	reply := g.act
	if reply == nil && g.reply != "" {
		reply = func(string) any { return w.expand(g.reply) }
	}
	w.self.answers(reply, !g.closes)
	w.other.answers(nil, true)
}

// do makes the request and records the answer and the requests the origins saw.
func (w *web) do(g get) {
	g.prepare(w)
	reply := w.c.call("http/request", g.params(w))
	seen := map[string]any{"answer": decodedBody(reply), "requests": w.self.requests()}
	if other := w.other.requests(); len(other) > 0 {
		seen["other"] = other
	}
	w.p.note(g.label, w.plain(canonical(seen)))
}

// decodedBody is an answer with its body as text.
func decodedBody(reply string) any {
	var m map[string]any
	if json.Unmarshal([]byte(reply), &m) != nil {
		return reply
	}
	if result, ok := m["result"].(map[string]any); ok {
		if text, ok := result["bodyBase64"].(string); ok {
			body, err := base64.StdEncoding.DecodeString(text)
			delete(result, "bodyBase64")
			result["body"] = shorten(string(body))
			if err != nil {
				result["body"] = err.Error()
			}
		}
		for _, h := range asList(result["headers"]) {
			if h, ok := h.(map[string]any); ok {
				h["value"] = shorten(h["value"].(string))
			}
		}
	}
	return m
}

func asList(v any) []any { l, _ := v.([]any); return l }
