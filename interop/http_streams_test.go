//go:build interop

package interop_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A delta is the parameters of http/request/bodyDelta.
type delta struct {
	RequestID string  `json:"requestId"`
	Seq       int     `json:"seq"`
	Delta     []byte  `json:"deltaBase64"`
	Done      bool    `json:"done"`
	Error     *string `json:"error"`
	number    int     // among all messages
}

// deltas returns the deltas of a stream so far.
func (c *caller) deltas(id string) (all []delta) {
	for _, m := range c.Kept() {
		if d, ok := deltaOf(m, id); ok {
			all = append(all, d)
		}
	}
	return all
}

func deltaOf(m tethertest.Message, id string) (d delta, ok bool) {
	ok = m.Method == "http/request/bodyDelta" && json.Unmarshal(m.Params, &d) == nil && d.RequestID == id
	d.number = m.Number
	return d, ok
}

// forget drops the deltas of a stream that have arrived.
func (c *caller) forget(id string) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // do not wait
	for err := error(nil); err == nil; {
		_, err = c.Take(ctx, func(m tethertest.Message) bool { _, ok := deltaOf(m, id); return ok })
	}
}

// delivered waits until n deltas of the stream have arrived.
func (c *caller) delivered(id string, n int) bool {
	return c.await(func() bool { return len(c.deltas(id)) >= n })
}

// body waits for the end of a stream and describes it. How bytes are cut into
// deltas is up to the server.
func (c *caller) body(call int64, id string) map[string]any {
	var all []delta
	ended := c.await(func() bool {
		all = c.deltas(id)
		return len(all) > 0 && all[len(all)-1].Done
	})
	var body bytes.Buffer
	sound, end := true, any("never")
	for i, d := range all {
		body.Write(d.Delta)
		sound = sound && d.Seq == i+1 && len(d.Delta) <= 1<<20 && d.number > c.came[call] && (d.Done || len(d.Delta) > 0 && d.Error == nil)
		if d.Done {
			sound = sound && end == "never" && len(d.Delta) == 0
			end = d.Error
		}
	}
	return map[string]any{"ended": ended, "error": end, "sound": sound, "body": shorten(body.String())}
}

// stream makes a streamed request and records the answer and the stream.
func (w *web) stream(g get) {
	g.prepare(w)
	params := g.params(w)
	params["streamResponse"] = true
	call := w.c.send("http/request", params)
	reply := w.c.answer(call)
	seen := map[string]any{"answer": decodedBody(reply), "requests": w.self.requests()}
	if strings.Contains(reply, `"result"`) {
		seen["stream"] = w.c.body(call, params["requestId"].(string))
	}
	w.p.note(g.label, w.plain(canonical(seen)))
}

// stalling sends a text and then nothing until the test ends.
func stalling(t testing.TB, first string) func(string) any {
	return func(string) any {
		return func(c net.Conn) { io.WriteString(c, first); <-t.Context().Done() }
	}
}

func TestHTTPStreams(t *testing.T) {
	t.Parallel()
	playBoth(t, exchange{name: "http streams", compares: headersInAnyOrder, differs: []difference{
		{"closed at once", emptyBody, exchanged(notFetched, "POST /", `content-length: 0\r\n\r\n`)},
	}, play: func(p *player) {
		w := newWeb(p)
		w.stream(get{label: "short"})
		w.stream(get{label: "empty", reply: ok("content-length: 0\r\n", "")})
		w.stream(get{label: "HEAD", method: "HEAD", reply: ok("content-length: 5\r\n", "")})
		w.stream(get{label: "204", reply: "HTTP/1.1 204 N\r\n\r\n"})
		w.stream(get{label: "chunked", reply: ok("transfer-encoding: chunked\r\n", "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n")})
		w.stream(get{label: "to the end", reply: ok("", "all of it"), closes: true})
		w.stream(get{label: "8 MiB", reply: ok(fmt.Sprintf("content-length: %d\r\n", 8<<20), strings.Repeat("0123456789abcdef", 1<<19))})
		w.stream(get{label: "cut", reply: ok("content-length: 50\r\n", "ok"), closes: true})
		w.stream(get{label: "cut after 300 KB", reply: ok("content-length: 50000000\r\n", strings.Repeat("x", 300000)), closes: true})
		w.stream(get{label: "bad chunk", reply: ok("transfer-encoding: chunked\r\n", "2\r\nab\r\nzz\r\n"), closes: true})
		w.stream(get{label: "closed at once", act: func(string) any { return func(net.Conn) {} }, closes: true, method: "POST"})
		w.stream(get{label: "timeout 0", more: map[string]any{"timeoutMs": 0}})
		w.stream(get{label: "stop at a redirect", reply: moved(302, "/x"), more: map[string]any{"redirectPolicy": "stop"}})
		w.stream(get{label: "bad url", url: "nope"})
	}}, shared)
}

func TestHTTPTimeouts(t *testing.T) {
	t.Parallel()
	playBoth(t, exchange{name: "http timeouts", compares: headersInAnyOrder, play: func(p *player) {
		w := newWeb(p)
		w.clocks = true
		soon := map[string]any{"timeoutMs": 1500}
		w.do(get{label: "no head", more: soon, act: stalling(p.t, ""), closes: true})
		w.do(get{label: "half a head", more: soon, act: stalling(p.t, "HTTP/1.1 200"), closes: true})
		w.do(get{label: "half a body", more: soon, act: stalling(p.t, ok("content-length: 5\r\n", "ok")), closes: true})
		// Whether the request leaves within a millisecond is chance.
		at := get{label: "one millisecond", more: map[string]any{"timeoutMs": 1}, act: stalling(p.t, ""), closes: true}
		at.prepare(w)
		p.note(at.label, w.plain(canonical(decodedBody(w.c.call("http/request", at.params(w))))))
		w.stream(get{label: "stream without head", more: soon, act: stalling(p.t, ""), closes: true})
		w.stream(get{label: "stream of half a body", more: soon, act: stalling(p.t, ok("content-length: 5\r\n", "ok")), closes: true})
	}}, shared)
}

// TestHTTPStreamSteps sends a body in pieces, each after the last one has arrived, so that both products send the same deltas.
// Meanwhile other requests use the same id and another one.
func TestHTTPStreamSteps(t *testing.T) {
	t.Parallel()
	playBoth(t, exchange{name: "http stream steps", compares: headersInAnyOrder, play: func(p *player) {
		w := newWeb(p)
		step := make(chan string)
		g := get{closes: true, more: map[string]any{"requestId": "S", "streamResponse": true}, act: func(string) any {
			return func(c net.Conn) {
				io.WriteString(c, ok("transfer-encoding: chunked\r\n", ""))
				for piece := range step {
					fmt.Fprintf(c, "%x\r\n%s\r\n", len(piece), piece)
				}
				io.WriteString(c, "0\r\n\r\n")
			}
		}}
		g.prepare(w)
		first := w.c.send("http/request", g.params(w))
		p.note("head", decodedBody(w.c.answer(first)))
		for i, piece := range []string{"a", "bc", strings.Repeat("d", 1000)} {
			step <- piece
			p.note(fmt.Sprintf("piece %d arrives", i+1), fmt.Sprint(w.c.delivered("S", i+1)))
		}
		again := get{url: "http://OTHER/", more: g.more}
		p.note("same id", decodedBody(w.c.call("http/request", again.params(w))))
		buffered := get{url: "http://OTHER/", more: map[string]any{"requestId": "S"}}
		p.note("same id, buffered", decodedBody(w.c.call("http/request", buffered.params(w))))
		beside := get{url: "http://OTHER/", more: map[string]any{"requestId": "T", "streamResponse": true}}
		call := w.c.send("http/request", beside.params(w))
		p.note("other id", decodedBody(w.c.answer(call)))
		p.note("other id's stream", w.c.body(call, "T"))
		elsewhere := p.caller()
		call = elsewhere.send("http/request", again.params(w))
		p.note("same id, other connection", decodedBody(elsewhere.answer(call)))
		p.note("its stream", elsewhere.body(call, "S"))
		close(step)
		p.note("stream", w.c.body(first, "S"))
		p.note("deltas", canonical(w.c.deltas("S")))
		w.c.forget("S")
		call = w.c.send("http/request", again.params(w))
		p.note("id again", decodedBody(w.c.answer(call)))
		p.note("id again, stream", w.c.body(call, "S"))
		failing := get{url: "http://127.0.0.1:1/", more: map[string]any{"requestId": "F", "streamResponse": true}}
		p.note("failing", decodedBody(w.c.call("http/request", failing.params(w))))
		p.note("failing again", decodedBody(w.c.call("http/request", failing.params(w))))
	}}, shared)
}

const tooLarge = "an answer that the client's WebSocket would not take ends the call, not the connection"

// TestHTTPLimits compares requests at tether's limits.
func TestHTTPLimits(t *testing.T) {
	t.Parallel()
	playBoth(t, exchange{name: "http limits", compares: headersInAnyOrder, differs: []difference{
		{"48 MiB", tooLarge, `{"answer":{"error":{"code":-32603,"message":"failed to read http/request response body: it exceeds 44040192 bytes, ` +
			`the most that one answer carries; use streamResponse"}},` + asking},
		{"afterwards", tooLarge, "<nil>"},
	}, play: func(p *player) {
		w := newWeb(p)
		w.do(get{label: "48 MiB", reply: ok(fmt.Sprintf("content-length: %d\r\n", 48<<20), strings.Repeat("0123456789abcdef", 3<<20)), closes: true})
		p.note("afterwards", fmt.Sprint(w.c.Err()))
	}}, shared)
}

// proxyRows are settings of a server's environment and a URL. PROXY is the proxy.
var proxyRows = []struct {
	label   string
	env     []string
	url     string
	differs []difference
}{
	{"http", []string{"HTTP_PROXY=http://PROXY"}, "http://nowhere.invalid/x?y", nil},
	{"https", []string{"HTTPS_PROXY=http://us:pw@PROXY"}, "https://nowhere.invalid:8443/x", nil},
	{"lower case first", []string{"http_proxy=http://PROXY", "HTTP_PROXY=http://127.0.0.1:1"}, "http://nowhere.invalid/x", nil},
	{"all", []string{"all_proxy=http://PROXY"}, "http://nowhere.invalid/x", nil},
	{"own before all", []string{"ALL_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://PROXY"}, "http://nowhere.invalid/x", nil},
	{"loopback too", []string{"HTTP_PROXY=http://PROXY"}, "http://SELF/x", nil},
	{"no scheme", []string{"HTTP_PROXY=PROXY"}, "http://nowhere.invalid/x", nil},
	{"user", []string{"HTTP_PROXY=http://us%40:pw@PROXY"}, "http://u:p@nowhere.invalid/x#f", nil},
	{"as a CGI program", []string{"HTTP_PROXY=http://PROXY", "REQUEST_METHOD=GET"}, "http://SELF/x", nil},
	{"bad", []string{"HTTP_PROXY=::: bad"}, "http://SELF/x", nil},
	{"refused", []string{"HTTP_PROXY=http://127.0.0.1:1"}, "http://SELF/x", nil},
	{"except address", []string{"HTTP_PROXY=http://PROXY", "NO_PROXY=127.0.0.0/8"}, "http://SELF/x", nil},
	{"except name", []string{"HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=.localhost,localhost"}, "http://localhost:PORT/x", nil},
	{"except nothing", []string{"HTTP_PROXY=http://PROXY", "NO_PROXY=where.invalid"}, "http://nowhere.invalid/x", nil},
	{"except all", []string{"HTTP_PROXY=http://PROXY", "no_proxy=*"}, "http://SELF/x", []difference{
		{"answer", starIsAll, `{"answer":{"result":{"body":"ok","headers":[{"name":"content-length","value":"2"}],"status":200}},` +
			`"requests":["GET /x HTTP/1.1\r\nuser-agent: me\r\nproxy-authorization: mine\r\naccept: */*\r\nhost: 127.0.0.1:SELF\r\n\r\n"]}`},
		{"proxy", starIsAll, "null"},
	}},
}

const starIsAll = "* in NO_PROXY stands for addresses too"

func TestHTTPProxies(t *testing.T) {
	t.Parallel()
	for _, row := range proxyRows {
		t.Run(row.label, func(t *testing.T) {
			t.Parallel()
			proxy := newOrigin(t)
			start := serverWith(func(_ testing.TB, cmd *exec.Cmd) {
				for _, v := range row.env {
					name, value, _ := strings.Cut(v, "=")
					cmd.Env = append(cmd.Env, name+"="+strings.ReplaceAll(value, "PROXY", "127.0.0.1:"+proxy.port))
				}
			})
			playBoth(t, exchange{name: "http proxies " + row.label, compares: headersInAnyOrder, differs: row.differs, play: func(p *player) {
				w := newWeb(p)
				proxy.answers(func(head string) any {
					if strings.HasPrefix(head, "CONNECT ") { // the tunnel leads nowhere
						return "HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n"
					}
					return okAnswer
				}, true)
				w.do(get{label: "answer", url: row.url, headers: []string{"User-Agent", "me", "Proxy-Authorization", "mine"}})
				p.note("proxy", w.plain(canonical(proxy.requests())))
			}}, start)
		})
	}
}

// TestHTTPCertificates uses a certificate that is trusted only because of the environment.
func TestHTTPCertificates(t *testing.T) {
	t.Parallel()
	file, certificate := ownCertificate(t)
	for _, row := range []struct {
		label, variable string
		protocols       []string
	}{
		{"unknown", "", nil},
		{"SSL_CERT_FILE", "SSL_CERT_FILE", nil},
		{"CODEX_CA_CERTIFICATE", "CODEX_CA_CERTIFICATE", []string{"http/1.1"}},
		{"HTTP 2 offered", "SSL_CERT_FILE", []string{"h2", "http/1.1"}},
	} {
		t.Run(row.label, func(t *testing.T) {
			t.Parallel()
			playBoth(t, exchange{name: "http certificates " + row.label, compares: headersInAnyOrder, play: func(p *player) {
				l, err := tls.Listen("tcp4", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: row.protocols})
				if err != nil {
					p.t.Fatal(err)
				}
				got := make(chan string, 1)
				go func() { // ends with the only connection, or with the listener
					got <- serveOnce(l)
				}()
				_, port, _ := net.SplitHostPort(l.Addr().String())
				reply := p.caller().call("http/request", map[string]any{"method": "GET", "url": "https://localhost:" + port + "/", "requestId": "r"})
				l.Close()
				seen := map[string]any{"answer": decodedBody(reply), "request": <-got}
				p.note("answer", strings.ReplaceAll(canonical(seen), port, "PORT"))
			}}, serverWith(func(_ testing.TB, cmd *exec.Cmd) {
				if row.variable != "" {
					cmd.Env = append(cmd.Env, row.variable+"="+file)
				}
			}))
		})
	}
}

// serveOnce answers one connection and returns what it read; a handshake that fails
// is an empty text.
func serveOnce(l net.Listener) string {
	conn, err := l.Accept()
	if err != nil {
		return "no connection"
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(timeLimit))
	if conn.(*tls.Conn).Handshake() != nil {
		return ""
	}
	b := make([]byte, 1000)
	n, _ := conn.Read(b)
	io.WriteString(conn, okAnswer)
	if bytes.HasPrefix(b, []byte(http2Preface)) {
		return http2Preface // settings may come with it
	}
	return string(b[:n])
}

// http2Preface is the beginning of a connection with HTTP/2.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// TestHTTPVersion2 makes requests to a server that offers HTTP/2, and compares the requests that the server sees and the answers
// that the client gets.
func TestHTTPVersion2(t *testing.T) {
	t.Parallel()
	file, certificate := ownCertificate(t)
	playBoth(t, exchange{name: "http version 2", compares: headersInAnyOrder, differs: []difference{
		{"3 GET", "a given Host is the authority, as in HTTP/1.1, not a header beside it",
			`{"result":{"body":"HTTP/2.0 GET / other.example {\"Accept\":[\"*/*\"]}","headers":[{"name":"content-length","value":"47"},` +
				`{"name":"content-type","value":"text/plain; charset=utf-8"},{"name":"set-cookie","value":"a"},{"name":"set-cookie","value":"b"}],"status":200}}`},
	}, play: func(p *player) {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			p.t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		server := &http.Server{Handler: http.HandlerFunc(describeRequest), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
			ErrorLog: log.New(io.Discard, "", 0)}
		var serving sync.WaitGroup
		serving.Go(func() { server.ServeTLS(l, "", "") }) // ends with Close
		defer serving.Wait()
		defer server.Close()
		c := p.caller()
		for i, row := range []map[string]any{
			{"method": "GET", "url": "/a%2fb|?c=d#e"},
			{"method": "GET", "url": "/", "headers": []map[string]any{{"name": "X-B", "value": "1"}, {"name": "A", "value": "2"}, {"name": "x-b", "value": "3"}, {"name": "User-Agent", "value": "me"}}},
			{"method": "GET", "url": "/", "headers": []map[string]any{{"name": "Connection", "value": "close"}, {"name": "Keep-Alive", "value": "5"}}},
			{"method": "GET", "url": "/", "headers": []map[string]any{{"name": "Host", "value": "other.example"}}},
			{"method": "POST", "url": "/echo", "bodyBase64": base64Of("hello")},
			{"method": "POST", "url": "/echo", "bodyBase64": base64Of(strings.Repeat("0123456789abcdef", 1<<16))},
			{"method": "HEAD", "url": "/"},
			{"method": "GET", "url": "/redirect"},
			{"method": "GET", "url": "/204"},
			{"method": "GET", "url": "/abort"},
		} {
			row["requestId"] = fmt.Sprint(i)
			row["url"] = "https://localhost:" + port + row["url"].(string)
			reply := c.call("http/request", row)
			p.note(fmt.Sprintf("%d %v", i, row["method"]), strings.ReplaceAll(canonical(decodedBody(reply)), port, "PORT"))
		}
	}}, serverWith(func(_ testing.TB, cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+file) }))
}

// describeRequest answers with a description of the request.
func describeRequest(w http.ResponseWriter, r *http.Request) {
	w.Header()["Date"] = nil
	switch r.URL.Path {
	case "/echo":
		io.Copy(w, r.Body)
		return
	case "/redirect":
		http.Redirect(w, r, "/", http.StatusFound)
		return
	case "/204":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/abort":
		panic(http.ErrAbortHandler)
	}
	delete(r.Header, "Content-Length")
	w.Header().Add("Set-Cookie", "a")
	w.Header().Add("Set-Cookie", "b")
	fmt.Fprintf(w, "%s %s %s %s %s", r.Proto, r.Method, r.RequestURI, r.Host, canonical(r.Header))
}

// ownCertificate makes a certificate for localhost, and a file with its issuer.
func ownCertificate(t *testing.T) (string, tls.Certificate) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		Subject: pkix.Name{CommonName: "interop"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		DNSNames: []string{"localhost"}, KeyUsage: x509.KeyUsageDigitalSignature}
	authority, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(suite.dir, t.Name()+"-ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority}), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
