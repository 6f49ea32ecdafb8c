package client

import (
	"bytes"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/noproxy"
)

// proxyOf is the proxy for a server in an environment, empty if there is none.
func proxyOf(t *testing.T, server string, env ...string) string {
	t.Helper()
	d, err := dialerOf(server, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ws := d.(*webSocket)
	if p := ws.proxyFor(env); p != nil {
		return p.Address()
	}
	return ""
}

// NO_PROXY has the same meaning as for all other connections of tether.
func TestNoProxy(t *testing.T) {
	t.Parallel()
	for _, c := range noproxy.Cases {
		server := "ws://" + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
		if direct := proxyOf(t, server, "ALL_PROXY=http://127.0.0.1:1", "NO_PROXY="+c.List) == ""; direct != c.Direct {
			t.Errorf("NO_PROXY=%q: %s is reached directly: %v", c.List, server, direct)
		}
	}
}

func TestWhichProxy(t *testing.T) {
	t.Parallel()
	all := []string{"HTTP_PROXY=http://plain:1", "HTTPS_PROXY=http://secure:2", "ALL_PROXY=socks5://all:3", "NO_PROXY=here.example,bücher.example:443"}
	for server, want := range map[string]string{
		"ws://h.example":                "plain:1",
		"wss://h.example:7443":          "secure:2",
		"ws://Here.Example":             "",
		"wss://bücher.example":          "",
		"wss://xn--bcher-kva.example.":  "",
		"wss://bücher.example:7443":     "secure:2",
		"ws://127.0.0.1:7777":           "",
		"ws://127.8.8.8:7777":           "",
		"ws://[::1]:7777":               "",
		"wss://localhost":               "",
		"ws://LocalHost:7777":           "",
		"ws://localhost.:7777":          "",
		"ws://ｌocalhost:7777":           "",
		"ws://a.localhost:7777":         "",
		"ws://0.0.0.0:7777":             "",
		"ws://[::]:7777":                "",
		"ws://[::ffff:127.0.0.1]:7777":  "",
		"wss://localhost.example":       "secure:2",
		"ws://[2001:db8::1]:7777/a?b#c": "plain:1",
	} {
		if got := proxyOf(t, server, all...); got != want {
			t.Errorf("%s: %q, want %q", server, got, want)
		}
	}
	if got := proxyOf(t, "wss://h.example", all[2:]...); got != "all:3" {
		t.Errorf("with ALL_PROXY only: %q", got)
	}
	if got := proxyOf(t, "wss://h.example"); got != "" {
		t.Errorf("without a proxy: %q", got)
	}
}

// A client warns once about a variable that it cannot use, however often it connects.
func TestProxyWarningComesOnce(t *testing.T) {
	t.Setenv("ALL_PROXY", "nonsense://proxy.example")
	var log bytes.Buffer
	d, err := dialerOf("wss://server.example", Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if p := d.(*webSocket).proxy(); p != nil {
			t.Errorf("proxy %s", p.Address())
		}
	}
	if n := strings.Count(log.String(), "unknown kind of proxy"); n != 1 {
		t.Errorf("%d warnings: %s", n, &log)
	}
}
