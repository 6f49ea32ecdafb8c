package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/ports"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/need"
	"github.com/tetherexec/tether/wire"
)

// forwarded starts `tether forward`, and returns the first local address and the rest of standard error.
func (b *testEnv) forwarded(args ...string) (cmd *exec.Cmd, address string, rest *bufio.Reader) {
	b.t.Helper()
	cmd = b.command(append([]string{"forward"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	rest = bufio.NewReader(stderr)
	line, err := rest.ReadString('\n')
	address, _, found := strings.Cut(strings.TrimPrefix(line, prefix), " is forwarded to ")
	if err != nil || !found {
		b.t.Fatalf("%q, %v", line, err)
	}
	return cmd, address, rest
}

// webServer serves a directory with Python's web server, or with Go's if there is no Python. It returns the port.
func webServer(t *testing.T, dir string) (port string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		site := httptest.NewServer(http.FileServer(http.Dir(dir)))
		t.Cleanup(site.Close)
		_, port, _ = net.SplitHostPort(site.Listener.Addr().String())
		return port
	}
	cmd := exec.CommandContext(t.Context(), python, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n') // Serving HTTP on 127.0.0.1 port N (http://127.0.0.1:N/) ...
	if words := strings.Fields(line); err == nil && len(words) > 5 {
		return words[5]
	}
	t.Fatalf("%q, %v", line, err)
	return ""
}

// A real web server through `tether forward`, while the connection to the server is cut again and again.
func TestForward(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	site := t.TempDir()
	page := tethertest.PatternBytes(t, tethertest.Scaled(int64(2<<20), 64<<20))
	if err := os.WriteFile(filepath.Join(site, "page"), page, 0o644); err != nil {
		t.Fatal(err)
	}
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	cuts := line.On(cable.FromServer, cable.Any().Every(12), cable.SeverAfter)
	cmd, address, _ := b.forwarded("--url", line.URL(), "0:"+webServer(t, site))
	for range 2 {
		resp, err := http.Get("http://" + address + "/page")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(got, page) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if cuts.Count() < 3 {
		t.Errorf("%d cuts", cuts.Count())
	}
	http.DefaultClient.CloseIdleConnections()
	cmd.Process.Signal(unix.SIGTERM)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != exitSignal+int(unix.SIGTERM) {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}

// What is wrong is said before anything is forwarded, or when a connection fails.
func TestForwardMistakes(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for arg, want := range map[string]string{
		"0": `"0" is no port`, "70000": `"70000" is no port`, "x:web": `"x" is no port`, "80:": `"" is no port`, "-80:1": "unknown shorthand",
		"80::80": "the host is", "80:::1:80": "the host is", "80:[::1]:x": `"x" is no port`, ":80": `"" is no port`,
	} {
		if got := b.tether(nil, "forward", arg); got.code != exitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", arg, got)
		}
	}
	url := tethertest.StartServer(t, server.Config{}).URL
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	used := l.Addr().(*net.TCPAddr).Port
	want := fmt.Sprintf("tether: port %d of this machine is in use; choose another one, or any free one with 0:80\n", used)
	if got := b.tether(nil, "forward", "--url", url, fmt.Sprintf("%d:80", used)); got.code != exitError || got.stderr != want {
		t.Errorf("a port in use: %+v", got)
	}
	l.Close()
	none := tethertest.StartServer(t, server.Config{Forward: ports.Nowhere}).URL
	if got := b.tether(nil, "forward", "--url", none, "0:80"); got.code != exitError || !strings.Contains(got.stderr, "--forward none") {
		t.Errorf("a server that forwards nothing: %+v", got)
	}

	_, address, messages := b.forwarded("--url", url, fmt.Sprintf("0:%d", used), "0:192.0.2.1:80")
	conn, err := net.Dial("tcp", address)
	if err == nil {
		defer conn.Close()
	}
	for {
		line, err := messages.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, prefix+"connection from ") {
			if !strings.Contains(line, "onnection refused") {
				t.Errorf("a target that refuses: %s", line)
			}
			break
		}
	}
}

// A command's child listens; the list names both, and the port is forwarded.
func TestPorts(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		need.CannotRun(t, "there is no python3")
	}
	b := newTestEnv(t)
	url := tethertest.StartServer(t, server.Config{}).URL
	b.env = append(b.env, "TETHER_URL="+url)
	if got := b.tether(nil, "ports"); got.code != 0 || strings.Count(got.stdout, "\n") != 1 || got.stderr != "" {
		t.Errorf("without listeners: %+v", got)
	}
	serve := "import socket,sys; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1], flush=True); c,_=s.accept(); c.sendall(b'found'); c.close(); sys.stdin.read()"
	if got := b.tether(nil, "run", "-di", "--name", "web", "--", "sh", "-c", `"$0" -c "$1"; true`, python, serve); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	port := strings.TrimSpace(startUntilAny(t, b.command("logs", "-f", "web")))
	got := b.tether(nil, "ports")
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	if fields := strings.Fields(lines[len(lines)-1]); got.code != 0 || len(lines) != 2 || len(fields) != 7 || fields[0] != port || fields[1] != "127.0.0.1" || fields[2] != "web" || !strings.HasPrefix(fields[5], "python") || fields[6] != "-" {
		t.Errorf("%+v", got)
	}
	var list []wire.PortListener
	if got := b.tether(nil, "ports", "--json"); json.Unmarshal([]byte(got.stdout), &list) != nil || len(list) != 1 || fmt.Sprint(list[0].Port) != port {
		t.Errorf("%+v", got)
	}
	if got := b.tether(nil, "forward", "nothing"); got.code != exitError || !strings.Contains(got.stderr, "nothing") {
		t.Errorf("an unknown process: %+v", got)
	}
	_, address, _ := b.forwarded("web")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if text, err := io.ReadAll(conn); string(text) != "found" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	b.tether(nil, "kill", "web")
}

// The port of a command is forwarded as soon as it listens there, through a cut, until it ends.
func TestRunForwardsPorts(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		need.CannotRun(t, "there is no python3")
	}
	b := newTestEnv(t)
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	line.On(cable.FromServer, cable.Answer(wire.MethodPortList).Times(1), cable.SeverBefore)
	serve := "import socket,sys; s=socket.create_server(('127.0.0.1',0)); print(s.getsockname()[1], flush=True); c,_=s.accept(); c.sendall(b'found'); c.close(); sys.exit(7)"
	cmd := b.command("run", "--url", line.URL(), "--forward-ports", "--", "sh", "-c", `"$0" -c "$1"; exit $?`, python, serve)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := ""
	for messages := bufio.NewReader(stderr); address == ""; { // the outage may be reported, too
		text, err := messages.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if rest, found := strings.CutPrefix(text, "tether: port "+strings.TrimSpace(port)+" of the command is forwarded to http://"); found {
			address = strings.TrimSpace(rest)
		}
	}
	if address == "127.0.0.1:"+strings.TrimSpace(port) {
		t.Errorf("%s is in use", address)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if text, err := io.ReadAll(conn); string(text) != "found" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}

// Without a server that forwards, --forward-ports is an error, and no command is started.
func TestRunForwardsPortsMistakes(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	none := tethertest.StartServer(t, server.Config{Forward: ports.Nowhere}).URL
	for _, try := range []struct {
		want string
		args []string
	}{
		{"needs a server", nil},
		{"--forward none", []string{"--url", none}},
		{"cannot be used with --detach", []string{"--url", none, "--detach"}},
	} {
		args := append(append([]string{"run", "--forward-ports"}, try.args...), "--", "echo", "started")
		if got := b.tether(nil, args...); got.code != exitRefused || got.stdout != "" || !strings.Contains(got.stderr, try.want) {
			t.Errorf("%v: %+v", try.args, got)
		}
	}
}

// The server listens, and connections come here; also after the death of its worker, on the same port.
func TestReverseForward(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "here") }))
	t.Cleanup(site.Close)
	_, port, _ := net.SplitHostPort(site.Listener.Addr().String())
	b := newTestEnv(t)
	s := startKeeper(t, []string{hastyVariable + "=1"}, "--forward-reverse", "loopback")
	cmd := b.command("forward", "--url", s.url, "--reverse", "127.0.0.1:0:"+port)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	messages := bufio.NewReader(stderr)
	line, err := messages.ReadString('\n')
	address, _, found := strings.Cut(strings.TrimPrefix(line, prefix), " of the server's machine is forwarded to localhost:"+port)
	if err != nil || !found {
		t.Fatalf("%q, %v", line, err)
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func() {
		t.Helper()
		resp, err := browser.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); string(text) != "here" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	}
	get()
	s.killWorker(t)
	for !strings.HasSuffix(line, "and listens again\n") {
		if line, err = messages.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	get()
}

// A wrong --reverse, or a server that does not listen, is an error.
func TestReverseForwardMistakes(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for arg, want := range map[string]string{"0": `"0" is no port`, "web": "a port is missing", "80:": `"" is no port`, "80:0": `"0" is no port`, "[::1]": "a port is missing", "1:::1:80": "the host is"} {
		if got := b.tether(nil, "forward", "--reverse", arg); got.code != exitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v", arg, got)
		}
	}
	for text, want := range map[string]string{
		"3000": "localhost:3000 localhost:3000", "9000:3000": "localhost:9000 localhost:3000", "0:db:1": "localhost:0 db:1",
		"[::1]:9000:[::2]:3000": "[::1]:9000 [::2]:3000", "127.0.0.2:9000": "127.0.0.2:9000 localhost:9000",
	} {
		if s, err := parseReverse(text); fmt.Sprint(s.at, " ", s.to) != want || err != nil {
			t.Errorf("%s: %v, %v, %v", text, s.at, s.to, err)
		}
	}
	url := tethertest.StartServer(t, server.Config{}).URL
	if got := b.tether(nil, "forward", "--url", url, "--reverse", "0:80"); got.code != exitError || !strings.Contains(got.stderr, "--forward-reverse") {
		t.Errorf("%+v", got)
	}
	if got := b.tether(nil, "forward"); got.code != exitUsage || !strings.Contains(got.stderr, "a port is needed") {
		t.Errorf("%+v", got)
	}
}

// startUntilAny starts a command, and returns its first line.
func startUntilAny(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	_, out := piped(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	return line
}

func TestTargetOf(t *testing.T) {
	t.Parallel()
	at := func(process, address string, port uint16, inside bool) wire.PortListener {
		return wire.PortListener{ProcessID: process, Address: address, Port: port, Inside: inside}
	}
	for _, try := range []struct {
		list []wire.PortListener
		want string
	}{
		{nil, "listens on no port"},
		{[]wire.PortListener{at("other", "127.0.0.1", 1, false)}, "listens on no port"},
		{[]wire.PortListener{at("p", "127.0.0.1", 1, true)}, "p:1"},
		{[]wire.PortListener{at("p", "0.0.0.0", 1, false), at("p", "::", 1, false)}, "localhost:1"},
		{[]wire.PortListener{at("p", "127.0.0.2", 1, false)}, "127.0.0.2:1"},
		{[]wire.PortListener{at("p", "127.0.0.1", 1, false), at("p", "127.0.0.1", 2, false)}, "several ports, 1 and 2"},
	} {
		to, err := targetOf("p", "p", try.list)
		if got := to.String() + fmt.Sprint(err); !strings.Contains(got, try.want) {
			t.Errorf("%v: %s", try.list, got)
		}
	}
}

func TestParseForward(t *testing.T) {
	t.Parallel()
	privileged := forwardSpec{text: "80", local: 80}
	if err := privileged.cannotListen(unix.EACCES); !strings.HasSuffix(err.Error(), "choose one above 1023, or any free one with 0:80") {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"5173": "5173 localhost:5173", "8080:80": "8080 localhost:80", "0:80": "0 localhost:80",
		"8080:db.internal:5432": "8080 db.internal:5432", "1:[::1]:2": "1 [::1]:2", "1:127.0.0.1:2": "1 127.0.0.1:2",
		"web": "0 localhost:0web", "8080:3f2a/web": "8080 localhost:03f2a/web",
	} {
		s, err := parseForward(text)
		if got := fmt.Sprint(s.local, " ", s.to, s.process); got != want || err != nil {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

// The death of the worker ends forwarded connections, and tether says so. The next connection is forwarded.
func TestForwardedConnectionsEndWithTheWorker(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, s := newTestEnv(t), startKept(t)
	_, address, messages := b.forwarded("--url", s.url, fmt.Sprintf("0:%d", l.Addr().(*net.TCPAddr).Port))
	connect := func() (here, there net.Conn) {
		t.Helper()
		here, err := new(net.Dialer).DialContext(tethertest.Within(t), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { here.Close() })
		if there, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { there.Close() })
		there.Write([]byte("hello"))
		if got := make([]byte, 5); must(io.ReadFull(here, got)) != nil || string(got) != "hello" {
			t.Fatalf("%q", got)
		}
		return here, there
	}
	here, there := connect()
	s.killWorker(t)
	if n, err := there.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("the target: %d, %v", n, err)
	}
	if n, err := here.Read(make([]byte, 1)); n > 0 || err == nil || err == io.EOF {
		t.Errorf("here: %d, %v", n, err)
	}
	for {
		line, err := messages.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "unknown forwarded connection: the server has lost it") {
			break
		}
	}
	connect()
}

func must[T any](_ T, err error) error { return err }
