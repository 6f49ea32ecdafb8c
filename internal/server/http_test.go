package server_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

func TestHTTPRequest(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		t.Setenv(name, "")
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Method+" "+r.Header.Get("X-Given"))
		w.WriteHeader(http.StatusTeapot)
		w.Write(bytes.Repeat(body, 1000))
	}))
	defer web.Close()
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	params := map[string]any{
		"method": "POST", "url": web.URL + "/x", "requestId": "r1", "bodyBase64": encoded([]byte("hello ")),
		"headers": []map[string]any{{"name": "X-Given", "value": "a"}},
	}
	var whole wire.HTTPResponse
	c.Must(wire.MethodHTTPRequest, params, &whole)
	if whole.Status != http.StatusTeapot || string(whole.BodyBase64) != strings.Repeat("hello ", 1000) {
		t.Errorf("answered %d with %d bytes", whole.Status, len(whole.BodyBase64))
	}
	found := false
	for _, h := range whole.Headers {
		found = found || h.Name == "x-seen" && h.Value == "POST a"
	}
	if !found {
		t.Errorf("headers %v", whole.Headers)
	}

	params["streamResponse"] = true
	for range 2 { // the id is free again after the last piece
		var head wire.HTTPResponse
		c.Must(wire.MethodHTTPRequest, params, &head)
		if head.Status != http.StatusTeapot || len(head.BodyBase64) > 0 {
			t.Errorf("answered %+v", head)
		}
		var body []byte
		for seq := uint64(1); ; seq++ {
			m := c.Await("a piece of the body", func(m tethertest.Message) bool { return m.Method == wire.NoteHTTPBodyDelta })
			var d wire.HTTPBodyDelta
			if err := wire.Decode(m.Params, &d); err != nil || d.RequestID != "r1" || d.Seq != seq {
				t.Fatalf("piece %d is %s: %v", seq, m.Raw, err)
			}
			body = append(body, d.DeltaBase64...)
			if d.Done {
				break
			}
		}
		if string(body) != strings.Repeat("hello ", 1000) {
			t.Errorf("%d bytes came", len(body))
		}
	}
	m := c.Call(wire.MethodHTTPRequest, map[string]any{"method": "GET", "url": "ftp://127.0.0.1/", "requestId": "r"})
	if m.Error == nil || m.Error.Code != -32602 || m.Error.Message != "http/request only supports http and https URLs, got ftp" {
		t.Errorf("answered %s", m.Raw)
	}
}

// A stream that its client does not read ends with the connection, and its id stays in
// use until then.
func TestHTTPStreamEndsWithItsConnection(t *testing.T) {
	check := tethertest.NothingLeft(t)
	gone := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(gone)
		w.WriteHeader(http.StatusOK)
		for {
			if _, err := fmt.Fprint(w, "tick "); err != nil {
				return
			}
			if http.NewResponseController(w).Flush() != nil || r.Context().Err() != nil {
				return
			}
		}
	}))
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	params := map[string]any{"method": "GET", "url": web.URL, "requestId": "endless", "streamResponse": true}
	c.Must(wire.MethodHTTPRequest, params, &wire.HTTPResponse{})
	if m := c.Call(wire.MethodHTTPRequest, params); m.Error == nil || m.Error.Message != "http/request streamResponse requestId `endless` is already active" {
		t.Errorf("answered %s", m.Raw)
	}
	c.Close()
	<-gone
	web.Close()
	s.Stop()
	check()
}

// A request that waits for the other server ends with its connection.
func TestHTTPRequestEndsWithItsConnection(t *testing.T) {
	for name, beginning := range map[string]string{"before the head": "", "in the head": "HTTP/1.1 200 OK\r\ncont",
		"in the body": "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok"} {
		t.Run(name, func(t *testing.T) {
			check := tethertest.NothingLeft(t)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			asked, gone := make(chan struct{}), make(chan struct{})
			go func() { // ends with the request
				defer close(gone)
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				io.ReadFull(c, make([]byte, len("GET / HTTP/1.1\r\n")))
				io.WriteString(c, beginning)
				close(asked)
				io.Copy(io.Discard, c)
			}()
			s := tethertest.StartServer(t, server.Config{})
			c := tethertest.Connect(t, s.URL)
			c.Ask(wire.MethodHTTPRequest, map[string]any{"method": "GET", "url": "http://" + l.Addr().String(), "requestId": "r"})
			<-asked
			c.Close()
			<-gone
			l.Close()
			s.Stop()
			check()
		})
	}
}
