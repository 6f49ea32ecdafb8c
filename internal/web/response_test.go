package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/wire"
)

const (
	head200  = "HTTP/1.1 200 OK\r\n"
	brokenIn = "failed to read http/request response body: error decoding response body"
)

// show is the text of an answer, in one line.
func show(r *wire.HTTPResponse) string {
	var b strings.Builder
	fmt.Fprint(&b, r.Status)
	for _, h := range r.Headers {
		fmt.Fprintf(&b, " %s=%s", h.Name, h.Value)
	}
	fmt.Fprintf(&b, " %q", r.BodyBase64)
	return b.String()
}

func TestAnswers(t *testing.T) {
	many := strings.Repeat("x: y\r\n", 200)
	tests := []struct{ name, answer, want string }{
		{"order", head200 + "B: 1\r\nA: 2\r\nb: 3\r\nA: 4\r\ncontent-length: 0\r\n\r\n", `200 a=2 a=4 b=1 b=3 content-length=0 ""`},
		{"values", head200 + "A: é\r\nB: a\tb\r\nC:   pad  \r\nD:\r\nE: \xff\r\ncontent-length: 0\r\n\r\n", "200 b=a\tb c=pad content-length=0 d= \"\""},
		{"line feeds", "HTTP/1.1 200 OK\nA: x\ncontent-length: 2\n\nok", `200 a=x content-length=2 "ok"`},
		{"no reason", "HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok", `200 content-length=2 "ok"`},
		{"old", "HTTP/1.0 200 OK\r\n\r\nok", `200 "ok"`},
		{"old with chunks", "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", `200 "0\r\n\r\n"`},
		{"to the end", head200 + "\r\nok", `200 "ok"`},
		{"999", "HTTP/1.1 999 X\r\ncontent-length: 2\r\n\r\nok", `999 content-length=2 "ok"`},
		{"500", "HTTP/1.1 500 X\r\ncontent-length: 2\r\n\r\nok", `500 content-length=2 "ok"`},
		{"interim", "HTTP/1.1 100 C\r\nx: y\r\n\r\nHTTP/1.1 103 E\r\n\r\n" + ok, `200 content-length=2 "ok"`},
		{"101", "HTTP/1.1 101 S\r\nupgrade: x\r\n\r\nhello", `101 upgrade=x ""`},
		{"204", "HTTP/1.1 204 N\r\ncontent-length: 2\r\n\r\nok", `204 content-length=2 ""`},
		{"304", "HTTP/1.1 304 N\r\ncontent-length: 2\r\n\r\nok", `304 content-length=2 ""`},
		{"chunks", head200 + "transfer-encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nT: v\r\n\r\n", `200 transfer-encoding=chunked "ok"`},
		{"chunks and length", head200 + "content-length: 9\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", `200 transfer-encoding=chunked "ok"`},
		{"length twice", head200 + "content-length: 2\r\ncontent-length: 2\r\n\r\nok", `200 content-length=2 "ok"`},
		{"folded", head200 + "a: x\r\n y\r\ncontent-length: 2\r\n\r\nok", `200 a=x y content-length=2 "ok"`},
		{"too long", head200 + "content-length: 1\r\n\r\nok", `200 content-length=1 "o"`},
		{"not decoded", head200 + "content-encoding: gzip\r\ncontent-length: 2\r\n\r\nok", `200 content-encoding=gzip content-length=2 "ok"`},
		{"many headers", head200 + many + "content-length: 0\r\n\r\n", "200 content-length=0" + strings.Repeat(" x=y", 200) + ` ""`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := answering(t, test.answer)
			if got := show(mustFetch(t, client(t), get("http://"+s.address))); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestBrokenHeads(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":             "",
		"cut":                 head200 + "con",
		"not HTTP":            "hello\r\n\r\n",
		"HTTP/2.0":            "HTTP/2.0 200 OK\r\n\r\nok",
		"status 099":          "HTTP/1.1 099 X\r\n\r\nok",
		"status 1000":         "HTTP/1.1 1000 X\r\n\r\nok",
		"control in value":    head200 + "a: \x01\r\n\r\nok",
		"DEL in value":        head200 + "a: \x7f\r\n\r\nok",
		"space in name":       head200 + "a b: x\r\n\r\nok",
		"space before colon":  head200 + "a : x\r\n\r\nok",
		"no colon":            head200 + "abc\r\n\r\nok",
		"empty line first":    "\r\n" + ok,
		"gzip and chunks":     head200 + "transfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"identity":            head200 + "transfer-encoding: identity\r\n\r\nok",
		"list of lengths":     head200 + "content-length: 2, 2\r\n\r\nok",
		"lengths differ":      head200 + "content-length: 2\r\ncontent-length: 3\r\n\r\nok",
		"length is a word":    head200 + "content-length: x\r\n\r\nok",
		"length is negative":  head200 + "content-length: -1\r\n\r\nok",
		"length has a sign":   head200 + "content-length: +2\r\n\r\nok",
		"length is empty":     head200 + "content-length: \r\n\r\nok",
		"length is huge":      head200 + "content-length: 99999999999999999999999\r\n\r\nok",
		"a large header":      head200 + "a: " + strings.Repeat("x", maxHeadBytes) + "\r\n\r\nok",
		"endless interims":    strings.Repeat("HTTP/1.1 100 C\r\n\r\n", maxHeadBytes/10),
		"too many headers":    head200 + strings.Repeat("a:\n", maxHeadFields+1) + "\r\nok",
		"endless empty lines": strings.Repeat("\n", maxHeadBytes+1),
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, answer)
			url := "http://" + s.address + "/x?y#z"
			_, err := fetch(client(t), get(url))
			wantError(t, err, wire.CodeInternal, "http/request failed: error sending request for url ("+url+")")
		})
	}
}

func TestBrokenBodies(t *testing.T) {
	for name, answer := range map[string]string{
		"short":            head200 + "content-length: 5\r\n\r\nok",
		"bad chunk":        head200 + "transfer-encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n",
		"cut chunk":        head200 + "transfer-encoding: chunked\r\n\r\n5\r\nok",
		"negative chunk":   head200 + "transfer-encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
		"endless chunk":    head200 + "transfer-encoding: chunked\r\n\r\n7fffffffffffffff\r\nok",
		"overflown chunk":  head200 + "transfer-encoding: chunked\r\n\r\n10000000000000002\r\nok\r\n0\r\n\r\n",
		"chunk too short":  head200 + "transfer-encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n",
		"chunk too long":   head200 + "transfer-encoding: chunked\r\n\r\n3\r\nok\r\n0\r\n\r\n",
		"no chunk size":    head200 + "transfer-encoding: chunked\r\n\r\n\r\nok\r\n0\r\n\r\n",
		"long chunk line":  head200 + "transfer-encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 1<<20) + "\r\nok\r\n0\r\n\r\n",
		"bad trailer":      head200 + "transfer-encoding: chunked\r\n\r\n0\r\nno colon\r\n\r\n",
		"no last chunk":    head200 + "transfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
		"no end of chunks": head200 + "transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
		"huge trailer":     head200 + "transfer-encoding: chunked\r\n\r\n0\r\na: " + strings.Repeat("x", maxHeadBytes) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, answer)
			_, err := fetch(client(t), get("http://"+s.address))
			wantError(t, err, wire.CodeInternal, brokenIn)
		})
	}
}

func TestResetInBody(t *testing.T) {
	begun := make(chan struct{})
	s := serve(t, func(c net.Conn, _ string) bool {
		io.WriteString(c, head200+"\r\nok") // no length: only the reset shows that it is incomplete
		<-begun
		c.(*net.TCPConn).SetLinger(0)
		return false
	})
	r, err := client(t).Do(t.Context(), get("http://"+s.address))
	close(begun)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Buffer(always)
	wantError(t, err, wire.CodeInternal, brokenIn)
}

// stalling serves a beginning and then nothing, until the peer is gone.
func stalling(t *testing.T, beginning string) (s *rawServer, asked, gone <-chan struct{}) {
	begin, end := make(chan struct{}), make(chan struct{})
	s = serve(t, func(c net.Conn, _ string) bool {
		io.WriteString(c, beginning)
		close(begin)
		io.Copy(io.Discard, c)
		close(end)
		return false
	})
	return s, begin, end
}

func TestTimeouts(t *testing.T) {
	c := client(t)
	timeout := func(s *rawServer, ms uint64) *wire.HTTPRequestParams {
		p := get("http://" + s.address + "/")
		p.TimeoutMs = &ms
		return p
	}
	s, _, _ := stalling(t, "")
	_, err := fetch(c, timeout(s, 30))
	wantError(t, err, wire.CodeInternal, "http/request failed: error sending request for url (http://"+s.address+"/)")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cause is %v", errors.Unwrap(err))
	}
	slow, _, _ := stalling(t, head200+"content-le")
	_, err = fetch(c, timeout(slow, 30))
	wantError(t, err, wire.CodeInternal, "http/request failed: error sending request for url (http://"+slow.address+"/)")
	const headTime = 2000 // milliseconds, enough to read a head on a busy machine
	var bodies sync.WaitGroup
	for _, rest := range []string{"transfer-encoding: chunked\r\n\r\n5\r\nok", "content-length: 5\r\n\r\nok"} {
		stalled, _, _ := stalling(t, head200+rest)
		bodies.Go(func() {
			_, err := fetch(c, timeout(stalled, headTime))
			wantError(t, err, wire.CodeInternal, brokenIn)
		})
	}
	bodies.Wait()
	_, err = fetch(c, timeout(s, 0))
	wantError(t, err, wire.CodeInternal, "http/request failed: route-aware request timed out")
	mustFetch(t, c, timeout(answering(t, ok), 1<<64-1))
	_, err = fetch(c, with(timeout(s, 0), "GET", "", "a b: x"))
	wantError(t, err, wire.CodeInvalidParams, "http/request header name is invalid: invalid HTTP header name")
}

func TestConnectionRefused(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1:1/x?y#z", "https://127.0.0.1:1/", "http://no..name/"} {
		_, err := fetch(client(t), get(url))
		wantError(t, err, wire.CodeInternal, "http/request failed: error sending request for url ("+url+")")
	}
	_, err := fetch(client(t), get("http://user:secret@127.0.0.1:1/"))
	wantError(t, err, wire.CodeInternal, "http/request failed: error sending request for url (http://127.0.0.1:1/)")
}

func TestCancelClosesTheSocket(t *testing.T) {
	for name, beginning := range map[string]string{"head": "", "body": head200 + "content-length: 5\r\n\r\nok"} {
		t.Run(name, func(t *testing.T) {
			s, asked, gone := stalling(t, beginning)
			c := client(t)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { // ends with the request
				r, err := c.Do(ctx, get("http://"+s.address))
				if err == nil {
					_, err = r.Buffer(always)
				}
				done <- err
			}()
			<-asked
			cancel()
			<-gone
			if err := <-done; err == nil {
				t.Error("a cancelled request succeeded")
			}
		})
	}
}

func TestCloseEndsRequests(t *testing.T) {
	c := New(Config{})
	s, _, _ := stalling(t, head200+"content-length: 5\r\n\r\nok")
	r, err := c.Do(t.Context(), get("http://"+s.address))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	_, err = r.Buffer(always)
	wantError(t, err, wire.CodeInternal, brokenIn)
	if _, err := c.Do(t.Context(), get("http://"+s.address)); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestBufferedBodyLimit(t *testing.T) {
	const tooLarge = "failed to read http/request response body: it exceeds 44040192 bytes, the most that one answer carries; use streamResponse"
	announced := answering(t, head200+"content-length: 44040193\r\n\r\n") // refused before it is read
	_, err := fetch(client(t), get("http://"+announced.address))
	wantError(t, err, wire.CodeInternal, tooLarge)
	for size, fits := range map[int]bool{MaxBuffered: true, MaxBuffered + 1: false} {
		s := serve(t, func(c net.Conn, _ string) bool {
			io.WriteString(c, head200+"\r\n")
			io.Copy(c, io.LimitReader(zeros{}, int64(size)))
			return false
		})
		r, err := fetch(client(t), get("http://"+s.address))
		if fits && (err != nil || len(r.BodyBase64) != size) {
			t.Errorf("a body of %d bytes: %v", size, err)
		}
		if !fits {
			wantError(t, err, wire.CodeInternal, tooLarge)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// collect runs Deltas and returns the deltas.
func collect(t *testing.T, p *wire.HTTPRequestParams) []wire.HTTPBodyDelta {
	t.Helper()
	r, err := client(t).Do(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var list []wire.HTTPBodyDelta
	err = r.Deltas(t.Context(), hasRoom, func(d wire.HTTPBodyDelta) error {
		d.DeltaBase64 = bytes.Clone(d.DeltaBase64)
		list = append(list, d)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range list {
		last := i == len(list)-1
		if d.Seq != uint64(i+1) || d.RequestID != "r" || d.Done != last || (len(d.DeltaBase64) == 0) != last {
			t.Errorf("delta %d of %d is %+v", i, len(list), d)
		}
	}
	return list
}

func TestDeltas(t *testing.T) {
	empty := collect(t, get("http://"+answering(t, head200+"content-length: 0\r\n\r\n").address))
	if len(empty) != 1 || empty[0].Error != nil {
		t.Errorf("an empty body gives %+v", empty)
	}
	whole := collect(t, get("http://"+answering(t, ok).address))
	if len(whole) != 2 || string(whole[0].DeltaBase64) != "ok" || whole[1].Error != nil {
		t.Errorf("a small body gives %+v", whole)
	}
	cut := collect(t, get("http://"+answering(t, head200+"content-length: 5\r\n\r\nok").address))
	if len(cut) != 2 || cut[1].Error == nil || *cut[1].Error != "error decoding response body" {
		t.Errorf("a cut body gives %+v", cut)
	}
}

func TestDeltasAreSentAsTheyCome(t *testing.T) {
	more := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			io.WriteString(w, "piece")
			w.(http.Flusher).Flush()
			<-more
		}
	}))
	defer s.Close()
	r, err := client(t).Do(t.Context(), get(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = r.Deltas(t.Context(), hasRoom, func(d wire.HTTPBodyDelta) error {
		got = append(got, string(d.DeltaBase64))
		if !d.Done {
			more <- struct{}{} // only now the server writes the next piece
		}
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"piece", "piece", "piece", ""}) {
		t.Errorf("deltas %q, %v", got, err)
	}
}

func TestDeltasEnd(t *testing.T) {
	s, _, gone := stalling(t, head200+"content-length: 5\r\n\r\nok")
	r, err := client(t).Do(t.Context(), get("http://"+s.address))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("connection lost")
	err = r.Deltas(ctx, hasRoom, func(d wire.HTTPBodyDelta) error {
		cancel(lost)
		return nil
	})
	if err != lost {
		t.Errorf("Deltas returned %v after its context ended", err)
	}
	<-gone

	r, err = client(t).Do(t.Context(), get("http://"+answering(t, ok).address))
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	if err := r.Deltas(t.Context(), hasRoom, func(wire.HTTPBodyDelta) error { sent++; return lost }); err != lost || sent != 1 {
		t.Errorf("Deltas returned %v after %d deltas, of which the first failed", err, sent)
	}
}

func TestGibibyteInFlatMemory(t *testing.T) {
	const size = 1 << 30
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		io.Copy(w, io.LimitReader(struct{ io.Reader }{zeros{}}, size))
	}))
	defer s.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := client(t).Do(t.Context(), get(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	total, largest := 0, 0
	err = r.Deltas(t.Context(), hasRoom, func(d wire.HTTPBodyDelta) error {
		total += len(d.DeltaBase64)
		largest = max(largest, len(d.DeltaBase64))
		return nil
	})
	runtime.ReadMemStats(&after)
	if err != nil || total != size || largest > MaxDelta {
		t.Errorf("got %d bytes in pieces up to %d: %v", total, largest, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("allocated %d bytes", used)
	}
}

// Before memory for a body is allocated, room is called. Without room a stream continues in small
// pieces, and a body for one answer is an error.
func TestBodiesNeedRoom(t *testing.T) {
	const size = 1 << 20
	s := answering(t, head200+"\r\n"+strings.Repeat("x", size))
	full := errors.New("no room")
	r, err := client(t).Do(t.Context(), get("http://"+s.address))
	if err != nil {
		t.Fatal(err)
	}
	var asked []int
	_, err = r.Buffer(func(n int) error {
		if asked = append(asked, n); n > 200<<10 {
			return full
		}
		return nil
	})
	if want := []int{2 * firstBuffer, 4 * firstBuffer}; !errors.Is(err, full) || !slices.Equal(asked, want) {
		t.Errorf("%v after asking for %v, want %v", err, asked, want)
	}
	if r, err = client(t).Do(t.Context(), get("http://"+s.address)); err != nil {
		t.Fatal(err)
	}
	total, largest := 0, 0
	err = r.Deltas(t.Context(), func(int) bool { return false }, func(d wire.HTTPBodyDelta) error {
		total += len(d.DeltaBase64)
		largest = max(largest, len(d.DeltaBase64))
		return nil
	})
	if err != nil || total != size || largest > firstDelta {
		t.Errorf("got %d bytes in pieces up to %d: %v", total, largest, err)
	}
}

func TestBackPressure(t *testing.T) {
	written := make(chan int, 1)
	s := serve(t, func(c net.Conn, _ string) bool {
		io.WriteString(c, head200+"\r\n")
		c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)) // a longer write counts as blocked
		n, _ := io.Copy(c, io.LimitReader(zeros{}, 256<<20))
		written <- int(n)
		return false
	})
	r, err := client(t).Do(t.Context(), get("http://"+s.address))
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	err = r.Deltas(t.Context(), hasRoom, func(wire.HTTPBodyDelta) error {
		if n := <-written; n > 64<<20 {
			t.Errorf("the server could send %d bytes ahead", n)
		}
		return stop
	})
	if err != stop {
		t.Error(err)
	}
}
