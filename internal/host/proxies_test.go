package host

import (
	"bytes"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/noproxy"
)

var quiet = slog.New(slog.DiscardHandler)

func TestNoProxy(t *testing.T) {
	for _, c := range noproxy.Cases {
		address := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
		for _, variable := range []string{"NO_PROXY", "no_proxy"} {
			p := ProxiesOf([]string{"ALL_PROXY=http://127.0.0.1:1", variable + "=" + c.List}, quiet)
			if direct := p.For("https", address) == nil; direct != c.Direct {
				t.Errorf("%s=%q: %s is reached directly: %v", variable, c.List, address, direct)
			}
		}
	}
	p := ProxiesOf([]string{"ALL_PROXY=http://127.0.0.1:1", "NO_PROXY=x", "no_proxy=a.example"}, quiet)
	if p.For("http", "a.example:80") == nil {
		t.Error("no_proxy counts although NO_PROXY is set")
	}
	if p.For("http", "x.:80") != nil {
		t.Error("a name with a dot at its end is not recognized")
	}
}

func TestProxiesOfEnvironment(t *testing.T) {
	for _, c := range []struct{ env, http, https string }{
		{"", "", ""},
		{"HTTP_PROXY=http://p", "http://p:80", ""},
		{"HTTPS_PROXY=https://p", "", "https://p:443"},
		{"ALL_PROXY=socks5h://p", "socks5://p:1080", "socks5://p:1080"},
		{"all_proxy=p:3128", "http://p:3128", "http://p:3128"},
		{"ALL_PROXY=http://p HTTP_PROXY=http://q:1/ https_proxy=http://[::1]:2", "http://q:1", "http://[::1]:2"},
		{"HTTP_PROXY=http://p http_proxy=http://q", "http://p:80", ""},
		{"HTTP_PROXY= http_proxy=http://q", "", ""},
		{"HTTP_PROXY=http://p HTTP_PROXY=http://q", "http://p:80", ""},
		{"HTTP_PROXY=http://us%40er:pw@p", "http://us%40er:pw@p:80", ""},
		{"HTTP_PROXY=http://p HTTPS_PROXY=http://q REQUEST_METHOD=GET", "", "http://q:80"},
		{"HTTP_PROXY=ftp://p ALL_PROXY=http://q", "http://q:80", "http://q:80"},
		{"HTTP_PROXY=:::", "", ""},
	} {
		p := ProxiesOf(strings.Fields(c.env), quiet)
		for scheme, want := range map[string]string{"http": c.http, "ws": c.http, "https": c.https, "wss": c.https} {
			got := ""
			if proxy := p.For(scheme, "127.0.0.1:80"); proxy != nil {
				got = proxy.URL().String()
			}
			if got != want {
				t.Errorf("%s: %s goes through %q, want %q", c.env, scheme, got, want)
			}
		}
	}
}

func TestUnusableProxyIsReported(t *testing.T) {
	var log bytes.Buffer
	ProxiesOf([]string{"HTTP_PROXY=http://secret@:1", "ALL_PROXY=ftp://secret@p"}, slog.New(slog.NewTextHandler(&log, nil)))
	text := log.String()
	if strings.Count(text, "\n") != 2 || !strings.Contains(text, "variable=HTTP_PROXY") || !strings.Contains(text, "variable=ALL_PROXY") || strings.Contains(text, "secret") {
		t.Errorf("log: %s", text)
	}
}
