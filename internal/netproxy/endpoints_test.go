package netproxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// rewritten returns the environment of a process when listener n has port 1000n.
func rewritten(env []string, e *Endpoints) []string {
	result := slices.Clone(env)
	for _, p := range e.ports {
		for i, entry := range result {
			if strings.HasPrefix(entry, p.Variable+"=") {
				result[i] = fmt.Sprintf("%s=%s%d%s", p.Variable, p.Prefix, 1000*(p.Listener+1), p.Suffix)
			}
		}
	}
	return result
}

// The values are those of the reference, except for ::1, which it leaves
// alone.
func TestFindEndpoints(t *testing.T) {
	env := []string{
		"PATH=/bin",
		"HTTP_PROXY=http://127.0.0.1:5001/path?q=1#f",
		"https_proxy=localhost:5001/p",
		"ALL_PROXY=SOCKS5H://u@localhost:5002",
		"WS_PROXY=u:p@localhost:77",
		"WSS_PROXY=socks4://127.0.0.1",
		"FTP_PROXY=ftp://127.0.0.1",
		"npm_Config_Proxy=HTTP://LOCALHOST:80",
		"NPM_CONFIG_HTTP_PROXY=http://us%40er:p%3Aw@127.0.0.1:5001",
		"BUNDLE_HTTPS_PROXY= http://:pw@127.0.0.1:5001 ",
		"YARN_HTTP_PROXY=https://127.0.0.1",
		"YARN_HTTPS_PROXY=http://[::1]:5003/",
		"CODEX_NETWORK_PROXY_ATTRIBUTION=token",
		// Values that cannot be used stay as they are.
		"PIP_PROXY=http://127.0.0.1:99999",
		"DOCKER_HTTP_PROXY=foo:123",
		"DOCKER_HTTPS_PROXY=http://127.0.0.1:0",
		"BUNDLE_HTTP_PROXY=http:127.0.0.1:7",
		"NPM_CONFIG_PROXY=http:\\\\127.0.0.1:8",
		"NPM_CONFIG_HTTPS_PROXY=http://[::ffff:127.0.0.1]:5",
		"http_proxy=http://127.0.0.2:5001",
		"ftp_proxy=http://localhost.:5001",
		"all_proxy=http://10.1.2.3:80",
		"no_proxy=http://127.0.0.1:5001",
		"MY_HTTP_PROXY=http://127.0.0.1:5001",
		"SSL_CERT_FILE=/ca.pem", // certificates of a prepared proxy
	}
	rest, e, err := FindEndpoints(env)
	if err != nil {
		t.Fatal(err)
	}
	got := rewritten(rest, e)
	want := []string{
		"PATH=/bin",
		"HTTP_PROXY=http://127.0.0.1:1000/path?q=1#f",
		"https_proxy=127.0.0.1:1000/p",
		"ALL_PROXY=socks5h://u@127.0.0.1:2000",
		"WS_PROXY=u:p@127.0.0.1:3000",
		"WSS_PROXY=socks4://127.0.0.1:4000",
		"FTP_PROXY=ftp://127.0.0.1:5000",
		"npm_Config_Proxy=http://127.0.0.1:5000",
		"NPM_CONFIG_HTTP_PROXY=http://us%40er:p%3Aw@127.0.0.1:1000",
		"BUNDLE_HTTPS_PROXY=http://:pw@127.0.0.1:1000",
		"YARN_HTTP_PROXY=https://127.0.0.1:6000",
		"YARN_HTTPS_PROXY=http://127.0.0.1:7000/",
	}
	want = append(want, env[13:]...)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	addresses := fmt.Sprint(e.Addresses)
	if want := "[127.0.0.1:5001 127.0.0.1:5002 127.0.0.1:77 127.0.0.1:1080 127.0.0.1:80 127.0.0.1:443 [::1]:5003]"; addresses != want {
		t.Errorf("endpoints %s, want %s", addresses, want)
	}
	if got := string(e.greeting()); got != "\x00CDXPXY1\x00\x05token" {
		t.Errorf("greeting %q", got)
	}
}

func TestEnvironmentWithoutProxy(t *testing.T) {
	var many []string
	for i := range stage.MaxListen + 1 {
		name := []byte("http_proxy") // each spelling is another variable
		for bit, c := range name[:4] {
			if i>>bit&1 == 1 {
				name[bit] = c - 'a' + 'A'
			}
		}
		for bit, c := range name[5:] {
			if i>>(bit+4)&1 == 1 {
				name[bit+5] = c - 'a' + 'A'
			}
		}
		many = append(many, fmt.Sprintf("%s=http://127.0.0.1:%d", name, 6000+i))
	}
	for name, row := range map[string]struct {
		env  []string
		want string
	}{
		"none":        {nil, "managed proxy mode requires proxy environment variables"},
		"empty":       {[]string{"HTTP_PROXY=", "https_proxy= "}, "managed proxy mode requires proxy environment variables"},
		"far away":    {[]string{"HTTP_PROXY=http://10.1.2.3:80"}, "managed proxy mode requires parseable loopback proxy endpoints"},
		"unparseable": {[]string{"HTTP_PROXY=::::"}, "managed proxy mode requires parseable loopback proxy endpoints"},
		"no_proxy":    {[]string{"no_proxy=http://127.0.0.1:5"}, "managed proxy mode requires proxy environment variables"},
		"no token":    {[]string{"HTTP_PROXY=http://127.0.0.1:5", "CODEX_NETWORK_PROXY_ATTRIBUTION="}, "managed proxy mode requires an attribution of 1 to 128 bytes"},
		"long token": {[]string{"HTTP_PROXY=http://127.0.0.1:5", "CODEX_NETWORK_PROXY_ATTRIBUTION=" + strings.Repeat("x", maxToken+1)},
			"managed proxy mode requires an attribution of 1 to 128 bytes"},
		"far too many": {many, "managed proxy mode takes at most 64 different proxies"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := FindEndpoints(row.env); err == nil || err.Error() != row.want {
				t.Errorf("got %v, want %s", err, row.want)
			}
		})
	}
}

func TestNoGreetingWithoutToken(t *testing.T) {
	for _, token := range []string{"", strings.Repeat("x", maxToken+1)} {
		e := &Endpoints{token: token}
		if got := e.greeting(); got != nil {
			t.Errorf("a token of %d bytes: %q", len(token), got)
		}
	}
}

// The environment of a gate names the proxy after the process has its listeners.
func TestEnvironmentOfGate(t *testing.T) {
	p := New(Config{})
	defer p.Close()
	for _, socks := range []bool{true, false} {
		rest, gate, err := p.Gate([]string{"PATH=/bin", "HTTP_PROXY=http://10.0.0.1", "CODEX_NETWORK_PROXY_ATTRIBUTION=x"}, socks, false)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := gate.Ports(); socks != (n == 2) {
			t.Errorf("%d listeners", n)
		}
		socksAddress := ""
		if socks {
			socksAddress = "127.0.0.1:2000"
		}
		want := slices.Sorted(slices.Values(Environment([]string{"PATH=/bin"}, "127.0.0.1:1000", socksAddress, false)))
		got := slices.Sorted(slices.Values(rewritten(rest, gate.Endpoints)))
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, seed := range []string{"http://127.0.0.1:1", "u:p@localhost", "socks5h://[::1]:9/x?y#z", "http://a@127.0.0.1@127.0.0.1:3", "://", "http://127.0.0.1:5001\\@evil:9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		p, address, ok := parseEndpoint(value)
		if !ok {
			return
		}
		if !address.Addr().IsLoopback() || address.Port() == 0 {
			t.Fatalf("%q leads to %v", value, address)
		}
		// The rewritten value leads to the listener, and to nothing else.
		_, again, ok := parseEndpoint(p.Prefix + "4321" + p.Suffix)
		if !ok || again.String() != "127.0.0.1:4321" {
			t.Fatalf("%q becomes %q, which leads to %v", value, p.Prefix+"4321"+p.Suffix, again)
		}
	})
}
