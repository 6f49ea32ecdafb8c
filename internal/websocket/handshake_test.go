package websocket

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// upgradeWith does the handshake with a server that sends this answer. KEY in the answer is replaced by the right key.
func upgradeWith(t *testing.T, header http.Header, answer string) (request *http.Request, early []byte, err error) {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	asked := make(chan *http.Request, 1)
	go func() {
		defer theirs.Close()
		r, err := http.ReadRequest(bufio.NewReader(theirs))
		asked <- r
		if err == nil {
			io.WriteString(theirs, strings.ReplaceAll(answer, "KEY", AcceptKey(r.Header.Get("Sec-WebSocket-Key"))))
		}
	}()
	u, err := url.Parse("ws://host.example:99/path?query")
	if err != nil {
		t.Fatal(err)
	}
	early, err = Upgrade(t.Context(), ours, u, header)
	return <-asked, early, err
}

const accepted = "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\n"

func TestAcceptKey(t *testing.T) {
	if got := AcceptKey("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" { // the example of RFC 6455
		t.Error(got)
	}
}

func TestUpgrade(t *testing.T) {
	r, early, err := upgradeWith(t, http.Header{"Authorization": {"Bearer a\r\nInjected: b"}}, accepted+"\r\n\x81\x00")
	if err != nil || string(early) != "\x81\x00" {
		t.Fatalf("%q, %v", early, err)
	}
	if r.Method != "GET" || r.RequestURI != "/path?query" || r.Host != "host.example:99" || r.Proto != "HTTP/1.1" {
		t.Errorf("asked %s %s of %s with %s", r.Method, r.RequestURI, r.Host, r.Proto)
	}
	for name, want := range map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
		"User-Agent": "", "Injected": "", "Authorization": "Bearer a  Injected: b"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Between this client and its server, a proxy may have added to the header.
func TestUpgradeAnsweredWithList(t *testing.T) {
	if _, _, err := upgradeWith(t, nil, strings.Replace(accepted, "Connection: Upgrade", "Connection: keep-alive, Upgrade", 1)+"\r\n"); err != nil {
		t.Error(err)
	}
}

func TestUpgradeRefused(t *testing.T) {
	_, _, err := upgradeWith(t, nil, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 5\r\n\r\nno, \n")
	refusal, ok := errors.AsType[*StatusError](err)
	if !ok || refusal.Status != 401 || refusal.Text != "no," {
		t.Errorf("%+v", err)
	}
	// A long text is cut, and a text without a length is not read.
	_, _, err = upgradeWith(t, nil, "HTTP/1.1 500 Oh\r\nContent-Length: 9999\r\n\r\n"+strings.Repeat("x", 9999))
	if refusal, ok := errors.AsType[*StatusError](err); !ok || len(refusal.Text) != maxRefusal {
		t.Errorf("%+v", err)
	}
	_, _, err = upgradeWith(t, nil, "HTTP/1.1 503 Later\r\n\r\n")
	if refusal, ok := errors.AsType[*StatusError](err); !ok || refusal.Status != 503 || refusal.Text != "" {
		t.Errorf("%+v", err)
	}
}

func TestUpgradeAnsweredByOtherServers(t *testing.T) {
	for answer, want := range map[string]error{
		"":                                  io.EOF,
		"HTTP/1.1 101 Switch":               io.EOF,
		"\x15\x03\x01\x00\x02\x02\x16":      io.EOF,
		"SSH-2.0-OpenSSH\r\n":               ErrNotHTTP,
		"HTTP/1.0 101 Switching\r\n\r\n":    ErrNotHTTP,
		"HTTP/2.0 101 Switching\r\n\r\n":    ErrNotHTTP,
		accepted + "no header\r\n\r\n":      ErrNotHTTP,
		strings.Repeat("x", maxAnswer+5000): ErrNotHTTP,
	} {
		_, _, err := upgradeWith(t, nil, answer)
		e, ok := errors.AsType[*AnswerError](err)
		if !ok || !errors.Is(err, want) || !strings.HasPrefix(strings.ReplaceAll(answer, "KEY", ""), string(e.Begin[:min(len(e.Begin), 50)])) {
			t.Errorf("%.30q: %+v", answer, err)
		}
	}
	for _, answer := range []string{
		strings.Replace(accepted, "upgrade: WebSocket", "Upgrade: h2c", 1),
		strings.Replace(accepted, "Connection: Upgrade\r\n", "", 1),
		strings.Replace(accepted, "KEY", "dGhlIHNhbXBsZSBub25jZQ==", 1),
		accepted + "Sec-WebSocket-Extensions: permessage-deflate\r\n",
		accepted + "Sec-WebSocket-Protocol: chat\r\n",
	} {
		if _, _, err := upgradeWith(t, nil, answer+"\r\n"); err == nil {
			t.Errorf("%q is accepted", answer)
		}
	}
}

func TestUpgradeEndsWithItsContext(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		http.ReadRequest(bufio.NewReader(theirs))
		cancel()
	}()
	u := &url.URL{Scheme: "ws", Host: "host"}
	ours.SetDeadline(time.Now().Add(time.Minute))
	if _, err := Upgrade(ctx, ours, u, nil); err != context.Canceled {
		t.Error(err)
	}
}
