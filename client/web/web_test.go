package web_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/client/web"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/scenario"
	"github.com/tetherexec/tether/internal/tethertest/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t testing.TB, url string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(tethertest.Within(t), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// site starts a web server and a client that reaches it through an executor.
func site(t *testing.T, h http.HandlerFunc) (*http.Client, string, *client.Client) {
	t.Helper()
	site := httptest.NewServer(h)
	t.Cleanup(site.Close)
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	return &http.Client{Transport: web.Of(c)}, site.URL, c
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	browser, url, _ := site(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/from":
			http.Redirect(w, r, "/to?x=1", http.StatusFound)
		case "/to":
			user, password, _ := r.BasicAuth()
			w.Header().Add("X-Two", "a")
			w.Header().Add("X-Two", "b")
			fmt.Fprint(w, r.URL.RawQuery, r.Host == "example.test", user, password)
		case "/echo":
			w.WriteHeader(http.StatusTeapot)
			io.Copy(w, r.Body)
		case "/large":
			io.Copy(w, tethertest.Pattern(1, size))
		}
	})
	req, _ := http.NewRequestWithContext(tethertest.Within(t), "GET", strings.Replace(url, "//", "//me:secret@", 1)+"/from", nil)
	resp, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "x=1falsemesecret" || err != nil || len(resp.Header["X-Two"]) != 2 || resp.Request.URL.Path != "/to" {
		t.Errorf("%q, %v, %v", body, err, resp.Header)
	}
	resp, err = browser.Post(url+"/echo", "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "hello" || err != nil || resp.StatusCode != 418 || resp.Status != "418 I'm a teapot" || resp.ContentLength != 5 {
		t.Errorf("%q, %v, %s", body, err, resp.Status)
	}
	if resp, err = browser.Head(url + "/echo"); err != nil || resp.StatusCode != 418 {
		t.Errorf("HEAD: %v, %v", resp, err)
	}
	if resp, err = browser.Get(url + "/large"); err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(body, tethertest.PatternBytes(t, size)) {
		t.Errorf("%d bytes, %v", len(body), err)
	}
	req, _ = http.NewRequestWithContext(tethertest.Within(t), "GET", url+"/to", nil)
	req.Host = "example.test"
	if resp, err = browser.Do(req); err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); string(body) != "true" {
		t.Errorf("another host: %q", body)
	}
}

func TestHTTPRefusals(t *testing.T) {
	t.Parallel()
	browser, url, _ := site(t, func(http.ResponseWriter, *http.Request) {})
	if _, err := browser.Get("file:///etc/passwd"); err == nil {
		t.Error("file: was fetched")
	}
	large := io.LimitReader(tethertest.Pattern(1, web.MaxRequestBody+1), web.MaxRequestBody+1)
	if _, err := browser.Post(url, "", large); err == nil || !strings.Contains(err.Error(), "exceeds") {
		t.Errorf("large body: %v", err)
	}
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", url, nil)
	if _, err := browser.Do(req); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestHTTPEnvHeader(t *testing.T) {
	t.Setenv("TETHER_TEST_VALUE", "sesame")
	browser, url, c := site(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Open"), r.Header.Get("X-Other"))
	})
	transport := web.Of(c)
	transport.EnvHeaders = []web.EnvHeader{
		{Host: strings.TrimPrefix(url, "http://"), Name: "X-Open", Prefix: "please ", Variable: "TETHER_TEST_VALUE"},
		{Host: "example.test", Name: "X-Other", Variable: "TETHER_TEST_VALUE"},
	}
	browser.Transport = transport
	resp, err := browser.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(resp.Body); string(body) != "please sesame" {
		t.Errorf("header %q", body)
	}
}

// A stream is a scripted server's answer to one request.
type stream struct {
	*scripted.Peer
	id string
}

func streamOf(p *scripted.Peer) stream {
	m := p.Expect("http/request")
	var params struct{ RequestID string }
	if err := json.Unmarshal(m.Params, &params); err != nil {
		panic(err)
	}
	p.Say(m.Answer(`{"status":200,"headers":[],"bodyBase64":""}`))
	return stream{p, params.RequestID}
}

func (s stream) delta(seq int, data string, more string) {
	s.Say(fmt.Sprintf(`{"method":"http/request/bodyDelta","params":{"requestId":%q,"seq":%d,"deltaBase64":%q%s}}`,
		s.id, seq, base64.StdEncoding.EncodeToString([]byte(data)), more))
}

const (
	goesOn = `,"done":false,"error":null`
	isDone = `,"done":true,"error":null`
)

func TestHTTPStreams(t *testing.T) {
	t.Parallel()
	mega := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, want, err string
		play            func(stream)
	}{
		{"end", "one two", "", func(s stream) { s.delta(1, "one ", goesOn); s.delta(2, "two", isDone) }},
		{"empty end", "one", "", func(s stream) { s.delta(1, "one", goesOn); s.delta(2, "", isDone) }},
		{"error", "one", "http response stream `http-1` failed: broken", func(s stream) {
			s.delta(1, "one", goesOn)
			s.delta(2, "", `,"done":true,"error":"broken"`)
		}},
		{"F57", "one", "http response stream `http-1` received seq 3, expected 2", func(s stream) {
			s.delta(1, "one", goesOn)
			s.delta(3, "three", goesOn)
		}},
		{"F58", strings.Repeat("x", 256), "body delta channel filled before delivery", func(s stream) {
			for i := range 257 {
				s.delta(i+1, "x", goesOn)
			}
		}},
		{"F59", strings.Repeat(mega, 16), "queued body deltas exceed 16777216 bytes", func(s stream) {
			for i := range 17 {
				s.delta(i+1, mega, goesOn)
			}
		}},
		{"F56", "one", "the connection was lost", func(s stream) { s.delta(1, "one", goesOn); s.Cut() }},
		{"F60", "one", "exceeds 1048576 bytes", func(s stream) { s.delta(1, "one", goesOn); s.delta(2, mega+"x", goesOn) }},
	} {
		t.Run(scenario.Name(c.name), func(t *testing.T) {
			s := scripted.NewServer(t)
			wait := scripted.Play(t, func() {
				p := s.Accept()
				p.Welcome("S")
				stream := streamOf(p)
				c.play(stream)
				switch c.name {
				case "F58", "F59":
					p.Serve("fs/getMetadata", `{"isDirectory":true,"isFile":false,"isSymlink":false,"size":0,"createdAtMs":1,"modifiedAtMs":2}`)
				case "F60", "F56": // the connection is lost
					p = s.Accept()
					p.Welcome("S")
				}
				next := streamOf(p)
				if stream.id != "http-1" || next.id != "http-2" {
					panic("ids " + stream.id + " and " + next.id)
				}
				stream.delta(9, "late", goesOn) // ignored
				next.delta(1, "", isDone)
			})
			conn := dial(t, s.URL(), client.Options{})
			browser := http.Client{Transport: web.Of(conn)}
			resp, err := browser.Get("http://example.test/")
			if err != nil {
				t.Fatal(err)
			}
			if c.name == "F58" || c.name == "F59" {
				// The answer comes after the last delta. It has no time limit, unlike the answer to a Ping.
				if _, err := files.Of(conn).Stat(tethertest.Within(t), "/"); err != nil {
					t.Fatal(err)
				}
			}
			got, err := io.ReadAll(resp.Body)
			if string(got) != c.want || c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if resp, err := browser.Get("http://example.test/"); err != nil || second(io.ReadAll(resp.Body)) != nil {
				t.Errorf("the next request: %v", err)
			}
			wait()
		})
	}
}

// A request whose answer is lost is not sent again; a request that waits for a connection is sent.
// Scenario F44.
func TestRequestInFlightIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	wait := scripted.Play(t, func() {
		p := s.Accept()
		p.Welcome("S")
		p.Expect("http/request")
		p.Cut()
		p = s.Accept()
		p.Welcome("S")
		streamOf(p).delta(1, "x", isDone)
	})
	c := dial(t, s.URL(), client.Options{})
	browser := http.Client{Transport: web.Of(c)}
	if _, err := browser.Get("http://example.test/"); !errors.Is(err, client.ErrAmbiguous) || !strings.Contains(err.Error(), "the connection was lost") {
		t.Errorf("the lost request: %v", err)
	}
	if resp, err := browser.Get("http://example.test/"); err != nil || second(io.ReadAll(resp.Body)) != nil {
		t.Errorf("the next request: %v", err)
	}
	wait()
}

// Scenario F61.
func TestCancelledBody(t *testing.T) {
	t.Parallel()
	s := scripted.NewServer(t)
	wait := scripted.Play(t, func() {
		p := s.Accept()
		p.Welcome("S")
		first := streamOf(p)
		first.delta(1, "x", goesOn)
		closed := streamOf(p)
		second := streamOf(p)
		first.delta(2, "late", goesOn)
		closed.delta(1, "late", goesOn)
		second.delta(1, "y", isDone)
	})
	c := dial(t, s.URL(), client.Options{})
	browser := http.Client{Transport: web.Of(c)}
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://example.test/", nil)
	resp, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled body: %v", err)
	}
	closed, err := browser.Get("http://example.test/")
	if err != nil {
		t.Fatal(err)
	}
	closed.Body.Close()
	if resp, err = browser.Get("http://example.test/"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(resp.Body); string(got) != "y" || err != nil {
		t.Errorf("the next body: %q, %v", got, err)
	}
	if _, err := closed.Body.Read(make([]byte, 1)); err == nil {
		t.Error("a closed body was read")
	}
	wait()
}

// When the client fails, the body fails.
func TestBodyEndsWithTheClient(t *testing.T) {
	t.Parallel()
	browser, url, c := site(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("x"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	resp, err := browser.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, client.ErrClosed) {
		t.Errorf("Read: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }
