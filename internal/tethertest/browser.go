package tethertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A Browser is logged in to the console of a server, as a person's browser is.
type Browser struct {
	Origin string // of the page, as in http://127.0.0.1:7000
	Cookie string // the header
	Key    string
}

// Browse logs in at the origin of a console, and ends the test if that fails.
func Browse(t testing.TB, origin, code string) *Browser {
	t.Helper()
	b := &Browser{Origin: origin}
	status, err := b.Login(code)
	if err != nil || status != http.StatusOK {
		t.Fatalf("login: status %d, %v", status, err)
	}
	return b
}

// Login exchanges a code for a cookie and a key.
func (b *Browser) Login(code string) (status int, err error) {
	body, _ := json.Marshal(map[string]string{"code": code}) // cannot fail
	request, err := http.NewRequest(http.MethodPost, b.Origin+"/console/login", strings.NewReader(string(body)))
	if err != nil {
		return 0, err
	}
	request.Close = true
	request.Header.Set("Origin", b.Origin)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil || answer.StatusCode != http.StatusOK {
		return answer.StatusCode, err
	}
	var keyed struct{ Key string }
	if err := json.Unmarshal(text, &keyed); err != nil || len(answer.Cookies()) != 1 {
		return answer.StatusCode, fmt.Errorf("%s: %v", text, err)
	}
	c := answer.Cookies()[0]
	b.Cookie, b.Key = c.Name+"="+c.Value, keyed.Key
	return answer.StatusCode, nil
}

// Dial opens the WebSocket of the page. The query, if there is one, begins with &.
func (b *Browser) Dial(ctx context.Context, query string) (*WS, error) {
	header := http.Header{"Origin": {b.Origin}, "Cookie": {b.Cookie}, "Sec-WebSocket-Extensions": {"permessage-deflate; client_max_window_bits"}}
	return DialWS(ctx, "ws"+strings.TrimPrefix(b.Origin, "http")+"/console/socket?key="+b.Key+query, header)
}

// Connect opens the WebSocket, and leaves the handshake to the test.
func (b *Browser) Connect(t testing.TB) *Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	ws, err := b.Dial(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, NewConn(ws, nil))
}
