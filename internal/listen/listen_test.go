package listen

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestParseURL(t *testing.T) {
	tcp := func(addr string) Endpoint { return Endpoint{Transport: TCP, Addr: netip.MustParseAddrPort(addr)} }
	secure := func(addr string) Endpoint {
		return Endpoint{Transport: TCP, TLS: true, Addr: netip.MustParseAddrPort(addr)}
	}
	for url, want := range map[string]Endpoint{
		"stdio":                      {Transport: Stdio},
		"stdio://":                   {Transport: Stdio},
		"ws://127.0.0.1:0":           tcp("127.0.0.1:0"),
		"ws://127.0.0.1:65535":       tcp("127.0.0.1:65535"),
		"ws://[::1]:0080":            tcp("[::1]:80"),
		"ws://[::1%1]:0":             tcp("[::1%1]:0"),
		"ws://[::ffff:127.0.0.1]:80": tcp("[::ffff:127.0.0.1]:80"),
		"wss://192.0.2.1:443":        secure("192.0.2.1:443"),
		"ws://localhost:7070":        tcp("127.0.0.1:7070"),
		"unix:///run/t.sock":         {Transport: UnixSocket, Path: "/run/t.sock"},
		"unix://t.sock":              {Transport: UnixSocket, Path: "t.sock"},
	} {
		if got, err := ParseURL(url); err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", url, got, err, want)
		}
	}
	for _, url := range []string{
		"ws://", "ws://localhost", "ws://localhost.:0", "ws://127.0.0.1", "ws://127.0.0.1:", "ws://127.0.0.1:0/", "ws://:0",
		"ws://127.0.0.1:99999", "ws://127.0.0.1:65536", "ws://127.0.0.1:00000080000", "ws://127.0.0.1:+1",
		"ws://127.0.0.1:-1", "ws://127.000.0.1:0", "ws://127.1:0", "ws://[::1]", "ws://::1:0", "ws://[::1%lo]:0",
		"ws://[127.0.0.1]:0", "ws://user@127.0.0.1:0", "ws://127.0.0.1:0?x", "ws://127.0.0.1:0#", "ws:// 127.0.0.1:0",
	} {
		_, err := ParseURL(url)
		if want := "invalid websocket URL `" + url + "`; expected `ws://IP:PORT`"; errText(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
		_, err = ParseURL("wss" + url[2:])
		if want := "invalid websocket URL `wss" + url[2:] + "`; expected `wss://IP:PORT`"; errText(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	for _, url := range []string{"", "STDIO", "stdio:", "stdio:///", " stdio", "WS://127.0.0.1:0", "http://127.0.0.1:0", "127.0.0.1:0", "ws", "ws:", "://", "UNIX://x"} {
		_, err := ParseURL(url)
		if want := "unsupported URL `" + url + "`; expected `ws://IP:PORT`, `wss://IP:PORT`, `unix://PATH` or `stdio`"; errText(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	for _, url := range []string{"unix://", "unix://a\nb", "unix://a\x00"} {
		_, err := ParseURL(url)
		if want := "invalid socket URL `" + url + "`; expected `unix://PATH`"; errText(err) != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestEndpointChecks(t *testing.T) {
	token := AuthConfig{Token: &CapabilityToken{}}
	cert := TLSConfig{CertFile: "c", KeyFile: "k"}
	mutual := TLSConfig{CertFile: "c", KeyFile: "k", ClientCAFile: "a"}
	const refusing = "refusing to listen on"
	for _, tt := range []struct {
		name string
		conf Config
		want string // start of the error
	}{
		{"default", Config{}, ""},
		{"loopback v4", Config{URL: "ws://127.9.9.9:1"}, ""},
		{"loopback v6", Config{URL: "ws://[::1]:1"}, ""},
		{"loopback v4 in v6", Config{URL: "ws://[::ffff:127.0.0.1]:1"}, ""},
		{"unix", Config{URL: "unix://s"}, ""},
		{"stdio", Config{URL: "stdio"}, ""},
		{"any v4", Config{URL: "ws://0.0.0.0:1"}, refusing},
		{"any v6", Config{URL: "ws://[::]:1"}, refusing},
		{"any v4 in v6", Config{URL: "ws://[::ffff:0.0.0.0]:1"}, refusing},
		{"network", Config{URL: "ws://192.0.2.1:1"}, refusing},
		{"network, TLS alone", Config{URL: "wss://192.0.2.1:1", TLS: cert}, refusing},
		{"network, token", Config{URL: "ws://192.0.2.1:1", Auth: token}, ""},
		{"network, client certificates", Config{URL: "wss://192.0.2.1:1", TLS: mutual}, ""},
		{"network, insecure", Config{URL: "ws://192.0.2.1:1", InsecureNoAuth: true}, ""},
		{"stdio with auth", Config{URL: "stdio", Auth: token}, "WebSocket auth requires a WebSocket listener, not stdio"},
		{"auth before listen", Config{URL: "bogus", Auth: AuthConfig{Token: token.Token, Signed: &SignedTokens{}}}, "clients authenticate with"},
		{"listen before secret", Config{URL: "bogus", Auth: AuthConfig{Token: &CapabilityToken{File: "/nonexistent"}}}, "unsupported URL"},
		{"wss without TLS", Config{URL: "wss://127.0.0.1:1"}, ErrNoTLS.Error()},
		{"ws with TLS", Config{URL: "ws://127.0.0.1:1", TLS: cert}, ErrUnusedTLS.Error()},
		{"default with TLS", Config{TLS: cert}, ErrUnusedTLS.Error()},
		{"unix with TLS", Config{URL: "unix://s", TLS: cert}, ErrUnusedTLS.Error()},
		{"stdio with TLS", Config{URL: "stdio", TLS: cert}, ErrUnusedTLS.Error()},
		{"half TLS", Config{URL: "wss://127.0.0.1:1", TLS: TLSConfig{KeyFile: "k"}}, "TLS needs a certificate"},
	} {
		err := tt.conf.Validate()
		if got := errText(err); (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func open(t *testing.T, cfg Config) *Listener {
	t.Helper()
	l, err := Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A user without root's rights who chooses a port below 1024 gets a hint.
func TestListenErrorOfAPrivilegedPort(t *testing.T) {
	err := listenError(Endpoint{Transport: TCP, Addr: netip.MustParseAddrPort("127.0.0.1:80")}, &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)})
	if want := "cannot listen on `ws://127.0.0.1:80`: bind: permission denied; ports below 1024 are for root, choose a higher one"; err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOpenNamesTheRealPort(t *testing.T) {
	l := open(t, Config{})
	if want := "ws://" + l.Addr().String(); l.URL != want || strings.HasSuffix(l.URL, ":0") {
		t.Errorf("URL %s, want %s", l.URL, want)
	}
	_, err := Open(context.Background(), Config{URL: l.URL})
	if want := "cannot listen on `" + l.URL + "`: bind: address already in use; another program listens there, choose another port"; errText(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSocketFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	path := filepath.Join(dir, "@t.sock") // must not become an abstract name
	l := open(t, Config{URL: "unix://@t.sock"})
	if l.URL != "unix://"+path || l.SocketPath != path {
		t.Errorf("URL %s, path %s, want %s", l.URL, l.SocketPath, path)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	_, err = Open(context.Background(), Config{URL: "unix://" + path})
	if want := "cannot listen on `unix://" + path + "`: another server is listening there"; errText(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after close: %v", err)
	}
}

// staleSocket is the path of a socket file whose server has ended.
func staleSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	return path
}

func TestStaleSocketFileIsReplaced(t *testing.T) {
	path := staleSocket(t)
	first := open(t, Config{URL: "unix://" + path})
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()

	// A server whose file was replaced by a successor does not remove the
	// successor's file.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	open(t, Config{URL: "unix://" + path})
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

func TestOtherFilesAreNotReplaced(t *testing.T) {
	path := secretFile(t, "precious")
	_, err := Open(context.Background(), Config{URL: "unix://" + path})
	if want := "cannot listen on `unix://" + path + "`: the file exists and is not a socket"; errText(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	missing := filepath.Join(path, "dir", "t.sock")
	if _, err := Open(context.Background(), Config{URL: "unix://" + missing}); err == nil {
		t.Error("opened a socket below a file")
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if _, err := Open(context.Background(), Config{URL: "unix://" + long}); !strings.Contains(errText(err), "a socket path may have about 100 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestServersThatStartTogetherDoNotStealTheSocket(t *testing.T) {
	path := staleSocket(t)
	const starters = 8
	results := make(chan *Listener, starters)
	for range starters {
		go func() {
			l, _ := Open(context.Background(), Config{URL: "unix://" + path})
			results <- l
		}()
	}
	open := 0
	for range starters {
		if l := <-results; l != nil {
			open++
			defer l.Close()
		}
	}
	if open != 1 {
		t.Errorf("%d servers listen on one path", open)
	}
}

func TestDirectoryLockExcludes(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lockDir(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	impatient, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := lockDir(impatient, dir); err == nil {
		t.Error("locked twice")
	}
	unlock()
	again, err := lockDir(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
}
