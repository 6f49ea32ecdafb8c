package cable_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest/frames"
	"github.com/tetherexec/tether/internal/websocket"

	"github.com/tetherexec/tether/internal/cable"
)

// Messages that no fault affects are forwarded frame by frame as they were sent.
func TestForwardsFramesAsTheyAre(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	big := strings.Repeat("x", 1<<20)
	for _, way := range []struct{ from, to *peer }{{client, server}, {server, client}} {
		way.from.send("hello", "", big)
		way.to.wants("hello", "", big)

		way.from.frame(frames.New(frames.OpBinary, false, []byte("one ")))
		way.from.frame(frames.Ping([]byte("p")))
		way.from.frame(frames.New(frames.OpContinuation, false, []byte("two ")))
		way.from.frame(frames.New(frames.OpContinuation, true, []byte("three")))
		if f := way.to.next(); f.Op != frames.OpPing || string(f.Payload) != "p" {
			t.Errorf("received %v %q, want the ping", f.Op, f.Payload)
		}
		for i, want := range []string{"one ", "two ", "three"} {
			f := way.to.next()
			if string(f.Payload) != want || f.Fin != (i == 2) || (f.Op == frames.OpBinary) != (i == 0) {
				t.Errorf("fragment %d is %v %q", i, f.Op, f.Payload)
			}
		}
	}
	client.frame(frames.Close(1000, "bye"))
	if f := server.next(); f.Op != frames.OpClose || !strings.HasSuffix(string(f.Payload), "bye") {
		t.Errorf("received %v %q, want the goodbye", f.Op, f.Payload)
	}
	server.conn.Close()
	if err := client.ended(); !isEOF(err) {
		t.Errorf("the client sees %v, want an orderly end", err)
	}
}

func TestTapAndStats(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	dropped := r.On(cable.FromServer, cable.Any(), cable.Drop)
	client.send(`{"id":1,"method":"a","params":{"processId":"p"}}`)
	server.next()
	server.send(`{"id":1,"result":{}}`, "garbage")
	client.wants("garbage")
	r.await(dropped, 1)
	r.Close() // after this, everything is recorded

	var got []string
	for _, m := range r.seen.messages {
		got = append(got, m.From.String()+" "+m.Fate+" "+m.ID+m.Method+m.AnswerTo+" "+m.Process())
		if m.Link != 1 || m.Time.IsZero() || len(m.Raw) == 0 {
			t.Errorf("message %+v", m)
		}
	}
	want := "client forwarded 1a p|server dropped 1a p|server forwarded  "
	if strings.Join(got, "|") != want {
		t.Errorf("tapped %q, want %q", strings.Join(got, "|"), want)
	}
	s := r.Stats()
	if s.Links != 1 || s.Messages != [2]int{1, 2} || s.Touched != 1 || s.Bytes[cable.FromClient] < 50 {
		t.Errorf("stats %+v", s)
	}
	if !r.seen.saw("link 1 opened") || !r.seen.saw("link 1 ended: the cable was removed") {
		t.Errorf("events %q", r.seen.events)
	}
}

// Sent reports messages that were written to the receiver, and none that a cut has
// stopped.
func TestSent(t *testing.T) {
	var sent recorder
	r := layTo(t, serveFar(t, listenOn(t, "tcp", "127.0.0.1:0"), "ws://"), cable.Config{Sent: sent.tap})
	client, server := r.dial()
	client.send("a")
	server.wants("a")
	r.On(cable.FromServer, cable.Any(), cable.Drop)
	server.send("dropped", "b")
	client.wants("b")
	frozen := r.On(cable.FromServer, cable.Any(), cable.FreezeBefore)
	server.send("caught")
	r.await(frozen, 1)
	r.Cut()
	r.Close() // after this, everything is recorded

	texts := func(n *recorder) (all []string) {
		for _, m := range n.messages {
			all = append(all, string(m.Raw))
		}
		return all
	}
	if got := slices.Sorted(slices.Values(texts(&sent))); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("sent %q", got)
	}
	if got := texts(r.seen); !slices.Equal(got, []string{"a", "dropped", "b", "caught"}) {
		t.Errorf("tapped %q", got)
	}
}

func TestCutAndMend(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	r.Cut()
	client.ended()
	server.ended()
	if _, err := tryDial(t, r.URL(), testTimeout); err == nil {
		t.Error("a cut cable lets a connection through")
	}
	if r.Links() != 1 {
		t.Errorf("links: %d, want 1", r.Links())
	}
	r.Mend()
	client, server = r.dial()
	r.Refuse()
	if _, err := tryDial(t, r.URL(), testTimeout); err == nil {
		t.Error("a connection was not refused")
	}
	client.send("still there")
	server.wants("still there")
	r.Sever()
	client.ended()
	server.ended()
	r.Mend()
	r.dial()
	if err := r.AwaitLinks(r.ctx, 3); err != nil {
		t.Error(err)
	}
	if err := r.AwaitOpen(r.ctx, 1); err != nil {
		t.Error(err)
	}
	if s := r.Stats(); s.Cuts != 1 || s.Refused != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestReset(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	r.Reset()
	for _, p := range []*peer{client, server} {
		if err := p.ended(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the end is %v, want a reset", err)
		}
	}
	// A reset of one end reaches the other.
	client, server = r.dial()
	client.conn.(*net.TCPConn).SetLinger(0)
	client.conn.Close()
	if err := server.ended(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the end is %v, want a reset", err)
	}
}

func TestFreezeOneDirection(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	r.Freeze(cable.FromServer)
	server.send("late")
	client.send("in time")
	server.wants("in time")
	client.silent()
	r.Thaw()
	client.wants("late")

	// A frozen cable can be cut, and accepts connections without an answer.
	r.Freeze()
	waiting := r.requestUpgrade()
	if err := r.AwaitLinks(r.ctx, 2); err != nil {
		t.Fatal(err)
	}
	waiting.silent()
	server.send("never")
	r.Cut()
	client.ended()
	r.Mend()
	r.Thaw()
	client, server = r.dial()
	server.send("again")
	client.wants("again")
}

func TestHalfClose(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	r.HalfClose(cable.FromServer)
	if err := client.ended(); !isEOF(err) {
		t.Errorf("the client sees %v, want the end of the stream", err)
	}
	server.send("swallowed")
	client.send("still heard")
	server.wants("still heard")

	client, server = r.dial()
	r.On(cable.FromClient, cable.Any(), cable.HalfCloseAfter)
	client.send("last")
	server.wants("last")
	if err := server.ended(); !isEOF(err) {
		t.Errorf("the server sees %v, want the end of the stream", err)
	}
	server.send("still heard")
	client.wants("still heard")
}

// An end that closes only its own direction does not end the other.
func TestPeersMayHalfClose(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	client.send("last")
	client.conn.(*net.TCPConn).CloseWrite()
	server.wants("last")
	if err := server.ended(); !isEOF(err) {
		t.Error(err)
	}
	server.send("answer")
	client.wants("answer")
}

func TestLatencyDelaysWithoutSlowing(t *testing.T) {
	const latency, n = 60 * time.Millisecond, 200
	r := lay(t)
	client, server := r.dial()
	r.SetLatency(latency, latency/3)
	start := time.Now()
	for range n {
		server.send("x")
	}
	client.wants("x")
	if d := time.Since(start); d < latency-latency/3 {
		t.Errorf("the first message took %v, want %v give or take %v", d, latency, latency/3)
	}
	for range n - 1 {
		client.wants("x")
	}
	if d := time.Since(start); d > n*latency/2 {
		t.Errorf("%d messages took %v: they waited for each other", n, d)
	}
}

func TestSlowLink(t *testing.T) {
	const rate, size = 200_000, 50_000
	r := lay(t)
	client, server := r.dial()
	r.SetRate(rate)
	text := strings.Repeat("x", size)
	start := time.Now()
	server.send(text)
	client.wants(text)
	ideal := time.Second * size / rate
	if d := time.Since(start); d < ideal*9/10 || d > 20*ideal { // the machine may be busy
		t.Errorf("%d bytes took %v, want about %v", size, d, ideal)
	}
	r.SetRate(rate / 1000)
	server.send(text)
	r.Cut() // in the middle
	client.ended()
	r.SetRate(0)
}

func TestStrand(t *testing.T) {
	r := lay(t)
	client, server := r.dial()
	end := r.Strand(cable.AnswersPings)
	client.ended()
	server.send("into the void")
	server.frame(frames.Ping([]byte("alive?")))
	if f := server.next(); f.Op != frames.OpPong || string(f.Payload) != "alive?" {
		t.Errorf("received %v %q, want a pong", f.Op, f.Payload)
	}
	client2, server2 := r.dial()
	end()
	server.ended()
	client2.send("mine lives")
	server2.wants("mine lives")

	rule := r.On(cable.FromClient, cable.Any(), cable.StrandAfter(cable.Silent))
	client2.send("last words")
	server2.wants("last words")
	client2.ended()
	r.await(rule, 1)
	server2.frame(frames.Ping(nil))
	server2.silent()
	r.Sever()
	server2.ended()
}

func TestUpgradeFaults(t *testing.T) {
	r := lay(t)
	busy := r.OnUpgrade(cable.Any().Times(2), cable.Status(503))
	for range 2 {
		_, err := tryDial(t, r.URL(), testTimeout)
		if refusal, ok := errors.AsType[*websocket.StatusError](err); !ok || refusal.Status != 503 {
			t.Errorf("dial: %v, want status 503", err)
		}
	}
	r.await(busy, 2)
	r.dial()

	hung := r.OnUpgrade(cable.Any(), cable.NoAnswer)
	client := r.requestUpgrade()
	r.await(hung, 1)
	client.silent()

	barred := r.OnUpgrade(cable.Any().Always(), cable.NoEntry)
	if _, err := tryDial(t, r.URL(), testTimeout); err == nil {
		t.Error("a connection was not reset")
	}
	barred.Remove()
	r.dial()
	if r.Links() != 2 || r.Stats().Refused != 4 {
		t.Errorf("stats %+v", r.Stats())
	}
}

// Cut and Close end a client that is still waiting for its upgrade.
func TestCutReachesConnectionsInTheirOpening(t *testing.T) {
	r := lay(t)
	hung := r.OnUpgrade(cable.Any(), cable.NoAnswer)
	failed := make(chan error, 1)
	go func() { // ends when the cable is cut
		_, err := tryDial(t, r.URL(), testTimeout)
		failed <- err
	}()
	r.await(hung, 1)
	r.Cut()
	err := <-failed
	if ne, ok := errors.AsType[net.Error](err); err == nil || ok && ne.Timeout() {
		t.Errorf("dial: %v, want the end of the connection", err)
	}
}

func TestTheTargetSeesItsOwnRequest(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintln(w, req.Host, req.RequestURI, req.Header.Get("Authorization"), req.Header["Sec-Websocket-Extensions"])
	}))
	defer far.Close()
	host := strings.TrimPrefix(far.URL, "http://")
	r := layTo(t, nil, cable.Config{Target: "ws://" + host + "/deep/path?x=1"})
	got := get(t, r.URL()+"/other", http.Header{
		"Authorization": {"Bearer secret"}, "Sec-Websocket-Extensions": {"permessage-deflate"},
	})
	if want := host + " /deep/path?x=1 Bearer secret []\n"; got != want {
		t.Errorf("the target saw %q, want %q", got, want)
	}
}

func TestPlainHTTPPasses(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		io.WriteString(w, "ready "+req.URL.Path+string(body))
	}))
	defer far.Close()
	r := layTo(t, nil, cable.Config{Target: strings.Replace(far.URL, "http", "ws", 1)})
	if body := get(t, r.URL()+"/readyz", nil); body != "ready /readyz" {
		t.Errorf("body %q", body)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testTimeout}
	resp, err := client.Post(strings.Replace(r.URL(), "ws", "http", 1)+"/login", "text/plain", strings.NewReader(" with a body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "ready /login with a body" {
		t.Errorf("answer %q, %v", body, err)
	}
}

// get requests a page over plain HTTP.
func get(t *testing.T, url string, header http.Header) string {
	t.Helper()
	req, err := http.NewRequest("GET", strings.Replace(url, "ws", "http", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestUnixSockets(t *testing.T) {
	dir := t.TempDir()
	ln := listenOn(t, "unix", filepath.Join(dir, "far.sock"))
	near := filepath.Join(dir, "near.sock")
	r := layTo(t, serveFar(t, ln, "unix://"), cable.Config{Listen: "unix://" + near})
	client, server := r.dial()
	client.send("hello")
	server.wants("hello")
	if info, err := os.Stat(near); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	r.Close()
	if _, err := os.Stat(near); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
}

func TestTLSTarget(t *testing.T) {
	authority := httptest.NewTLSServer(nil) // only for its certificate
	defer authority.Close()
	roots := x509.NewCertPool()
	roots.AddCert(authority.Certificate())
	ln := tls.NewListener(listenOn(t, "tcp", "127.0.0.1:0"), authority.TLS)
	far := serveFar(t, ln, "wss://")
	r := layTo(t, far, cable.Config{TLS: &tls.Config{RootCAs: roots}})
	client, server := r.dial()
	client.send("hello")
	server.wants("hello")
	r.Cut()
	client.ended()
	server.ended()
	strict := layTo(t, far, cable.Config{})
	if _, err := tryDial(t, strict.URL(), testTimeout); err == nil {
		t.Error("an unknown certificate is accepted")
	}
}

func TestAim(t *testing.T) {
	r := lay(t)
	r.dial()
	other := serveFar(t, listenOn(t, "tcp", "127.0.0.1:0"), "ws://")
	if err := r.Aim(other.url); err != nil {
		t.Fatal(err)
	}
	client := dial(t, r.URL())
	server := <-other.arrived
	client.send("hello")
	server.wants("hello")
	if err := r.Aim("http://x"); err == nil {
		t.Error("http is accepted as a target")
	}
}

func TestLayRefuses(t *testing.T) {
	for _, cfg := range []cable.Config{
		{},
		{Target: "unix://"},
		{Target: "http://127.0.0.1:1"},
		{Target: "ws://user@127.0.0.1:1"},
		{Target: "ws://127.0.0.1:1", Listen: "ws://0.0.0.0:0"},
		{Target: "ws://127.0.0.1:1", Listen: "ws://[::]:0"},
		{Target: "ws://127.0.0.1:1", Listen: "ws://localhost:0"},
		{Target: "ws://127.0.0.1:1", Listen: "wss://127.0.0.1:0"},
		{Target: "ws://127.0.0.1:1", Listen: "unix://" + t.TempDir()},
	} {
		if c, err := cable.Lay(context.Background(), cfg); err == nil {
			c.Close()
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

func TestTargetThatDoesNotAnswer(t *testing.T) {
	ln := listenOn(t, "tcp", "127.0.0.1:0")
	ln.Close()
	r := layTo(t, nil, cable.Config{Target: "ws://" + ln.Addr().String()})
	if _, err := tryDial(t, r.URL(), testTimeout); err == nil {
		t.Error("a connection to a target without a server succeeded")
	}
	if r.Links() != 0 || r.Stats().Refused != 1 {
		t.Errorf("stats %+v", r.Stats())
	}
}

func TestTheContextEndsTheCable(t *testing.T) {
	far := serveFar(t, listenOn(t, "tcp", "127.0.0.1:0"), "ws://")
	ctx, cancel := context.WithCancel(context.Background())
	c, err := cable.Lay(ctx, cable.Config{Target: far.url})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client := dial(t, c.URL())
	cancel()
	client.ended()
}

// If an end resets its connection, for example because a program ends with unread
// answers, everything that it has sent before is still delivered.
func TestResetOvertakesNothing(t *testing.T) {
	for _, from := range []cable.Direction{cable.FromClient, cable.FromServer} {
		t.Run(from.String(), func(t *testing.T) {
			r := lay(t)
			sender, receiver := r.dial()
			if from == cable.FromServer {
				sender, receiver = receiver, sender
			}
			r.SetLatency(100*time.Millisecond, 0)
			sender.send("last words")
			sender.conn.(*net.TCPConn).SetLinger(0)
			sender.conn.Close()
			receiver.wants("last words")
			receiver.ended()
		})
	}
}
