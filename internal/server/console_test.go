//go:build unix

package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// lockedBuffer is a log that goroutines of a server write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// consoleServer starts a server with a console, and returns the origin of the page.
func consoleServer(t *testing.T, cfg console.Config, log *slog.Logger) (url, origin string) {
	t.Helper()
	s := tethertest.StartServerOn(t, listen.Config{URL: listen.DefaultURL, Console: &cfg}, server.Config{Log: log})
	return s.URL, "http" + strings.TrimPrefix(s.URL, "ws")
}

func consoleCode(t *testing.T, c *tethertest.Client) string {
	t.Helper()
	var code wire.ConsoleCode
	c.Must(wire.MethodConsoleCode, map[string]any{}, &code)
	if code.ExpiresMs != 60_000 || code.Origin != nil {
		t.Errorf("%+v", code)
	}
	return code.Code
}

func TestBrowserIsAClient(t *testing.T) {
	t.Parallel()
	url, origin := consoleServer(t, console.Config{}, nil)
	c := tethertest.Dial(t, url)
	hello := c.Handshake("")
	c.Start(tethertest.Shell("p", "echo hello; exec sleep 1000", nil))
	c.AwaitEvent("p")

	b := tethertest.Browse(t, origin, consoleCode(t, c))
	page := b.Connect(t)
	page.Handshake("")
	var seen wire.ListResult
	page.Must(wire.MethodProcessList, map[string]any{"sessionId": nil}, &seen)
	if len(seen.Processes) != 1 || seen.Processes[0].SessionID != hello.Tether.PublicID {
		t.Errorf("the page sees %+v", seen)
	}
	ws := page.WS() // browsers may send a message in fragments
	message := []byte(`{"id":99,"method":"environment/status"}`)
	for i, part := range [][]byte{message[:5], message[5:20], message[20:]} {
		first := byte(tethertest.OpContinuation)
		if i == 0 {
			first = tethertest.OpText
		}
		if i == 2 {
			first |= 0x80
		}
		if err := ws.WriteFrame(first, true, part); err != nil {
			t.Fatal(err)
		}
	}
	if m := page.Answer(99); m.Error != nil {
		t.Errorf("a message in fragments: %s", m.Raw)
	}
}

// A browser has the principal of the client that has let it in.
func TestBrowserHasThePrincipalOfItsClient(t *testing.T) {
	t.Parallel()
	issuer := tethertest.NewIssuer(t)
	on := issuer.Listen()
	on.Console = &console.Config{}
	s := tethertest.StartServerOn(t, on, server.Config{})
	origin := "http" + strings.TrimPrefix(s.URL, "ws")
	login := func(subject string) *tethertest.Client {
		t.Helper()
		c := tethertest.DialToken(t, s.URL, issuer.Token(subject))
		c.Handshake("")
		page := tethertest.Browse(t, origin, consoleCode(t, c)).Connect(t) // without a token
		page.Handshake("")
		return page
	}
	alice, bob := login("alice"), login("bob")
	if a, b := lists(alice)[0], lists(bob)[0]; a != 2 || b != 2 {
		t.Errorf("pages of two principals see %d and %d sessions; each has its own and that of its client", a, b)
	}
}

func TestNoConsole(t *testing.T) {
	t.Parallel()
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	if m := c.Call(wire.MethodConsoleCode, map[string]any{}); m.Error == nil || m.Error.Message != "this server has no console" {
		t.Errorf("%s", m.Raw)
	}
	origin := "http" + strings.TrimPrefix(s.URL, "ws")
	for path, want := range map[string]int{"/console": http.StatusNotFound, "/console/": http.StatusNotFound} {
		answer, err := http.Get(origin + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %v", path, answer.Status)
		}
	}
	if status, err := (&tethertest.Browser{Origin: origin}).Login("x"); status != http.StatusForbidden {
		t.Errorf("a page of this origin: %d %v", status, err)
	}
}

// Other pages, and programs that imitate a browser, get nothing, at any path. Ten thousand attempts cost a few lines of the log.
func TestStrangersAtTheConsole(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	url, origin := consoleServer(t, console.Config{}, slog.New(slog.NewTextHandler(&log, nil)))
	c := tethertest.Connect(t, url)
	b := tethertest.Browse(t, origin, consoleCode(t, c))
	for what, change := range map[string]func(*tethertest.Browser){
		"no cookie":      func(b *tethertest.Browser) { b.Cookie = "x=y" },
		"another cookie": func(b *tethertest.Browser) { b.Cookie = b.Cookie[:len(b.Cookie)-2] + "AA" },
		"no key":         func(b *tethertest.Browser) { b.Key = "" },
	} {
		stranger := *b
		change(&stranger)
		_, err := stranger.Dial(t.Context(), "")
		if refused, ok := errors.AsType[*tethertest.UpgradeError](err); !ok || refused.Status != http.StatusForbidden {
			t.Errorf("%s: %v", what, err)
		}
	}
	header := http.Header{"Origin": {origin}, "Cookie": {b.Cookie}}
	for _, path := range []string{"/", "/?key=" + b.Key, "/console/", "/metrics", "/readyz"} {
		_, err := tethertest.DialWS(t.Context(), url+path, header)
		refused, ok := errors.AsType[*tethertest.UpgradeError](err)
		if !ok || path != "/console/" && refused.Status != http.StatusForbidden {
			t.Errorf("%s: %v", path, err)
		}
	}

	address := strings.TrimPrefix(origin, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const attempts = 10_000
	guess := "POST /console/login HTTP/1.1\r\nHost: " + address + "\r\nOrigin: " + origin + "\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n" + `{"code":"AAAAAAAAAAAAAAAAAAAAAA"}`
	var writing sync.WaitGroup
	writing.Go(func() {
		for range attempts { // pipelined
			if _, err := io.WriteString(conn, guess); err != nil {
				t.Error(err)
				return
			}
		}
	})
	answers := bufio.NewReader(conn)
	for i := range attempts {
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		io.Copy(io.Discard, answer.Body)
		if answer.StatusCode != http.StatusForbidden {
			t.Fatalf("attempt %d: %v", i, answer.Status)
		}
	}
	writing.Wait()
	if n := strings.Count(log.String(), "browser refused"); n == 0 || n > 1000 {
		t.Errorf("%d lines for %d attempts", n, attempts)
	}
	if text := log.String(); strings.Contains(text, b.Key) || strings.Contains(text, strings.SplitN(b.Cookie, "=", 2)[1]) || !strings.Contains(text, "reason=code") {
		t.Errorf("log: %.2000s", text)
	}
	c.Must("environment/status", map[string]any{}, nil)
}

// A login and the upgrade may come in one piece. The upgrade counts with what it brings itself: the cookie of a login that is not answered
// yet is of no use to it.
func TestPipelinedLoginAndSocket(t *testing.T) {
	t.Parallel()
	url, origin := consoleServer(t, console.Config{}, nil)
	c := tethertest.Connect(t, url)
	b := tethertest.Browse(t, origin, consoleCode(t, c))
	address := strings.TrimPrefix(origin, "http://")
	head := "Host: " + address + "\r\nOrigin: " + origin + "\r\n"
	socket := func(cookie string) string {
		return "GET /console/socket?key=" + b.Key + " HTTP/1.1\r\n" + head + "Cookie: " + cookie + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	}
	body := fmt.Sprintf(`{"code":%q}`, consoleCode(t, c))
	login := "POST /console/login HTTP/1.1\r\n" + head + fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)) + body
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, login+socket("a=b")+socket(b.Cookie)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for i, want := range []int{http.StatusOK, http.StatusForbidden, http.StatusSwitchingProtocols} {
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		if want != http.StatusSwitchingProtocols {
			io.Copy(io.Discard, answer.Body)
		}
		if answer.StatusCode != want {
			t.Errorf("answer %d: %v, want %d", i, answer.Status, want)
		}
	}
}

// A message above the limit ends the page's connection, and no other.
func TestLargeMessageOfAPage(t *testing.T) {
	t.Parallel()
	url, origin := consoleServer(t, console.Config{}, nil)
	c := tethertest.Connect(t, url)
	b := tethertest.Browse(t, origin, consoleCode(t, c))
	ws, err := b.Dial(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	header := []byte{0x81, 0x80 | 127}
	header = binary.BigEndian.AppendUint64(header, tethertest.MaxMessage+1)
	if err := ws.WriteRaw(append(header, 1, 2, 3, 4)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(); err == nil {
		t.Error("the connection goes on")
	} else if closed, ok := errors.AsType[*tethertest.CloseError](err); !ok || closed.Code != 1009 {
		t.Errorf("it ends with %v", err)
	}
	c.Must("environment/status", map[string]any{}, nil)
}
