package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// serveInside is a Python program that says "inside" to each connection to a port, and prints a line when it listens.
const serveInside = `import socket,sys
s=socket.create_server(('127.0.0.1',int(sys.argv[1])))
print('listens', flush=True)
while True:
	c,_=s.accept(); c.sendall(b'inside'); c.close()`

// hostPort returns a port of this machine on which "host" is said to each connection.
func hostPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // ends with the listener
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "host")
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// said returns what is said to a connection, which messages are about.
func said(t *testing.T, address string, messages *bufio.Reader) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text, err := io.ReadAll(conn)
	for err != nil {
		line, end := messages.ReadString('\n')
		if t.Logf("tether says: %s", line); end != nil || strings.Contains(line, "connection from") {
			t.Fatal(err)
		}
	}
	return string(text)
}

// A command with a network of its own listens on a port that a program of the machine uses, too. The name of the command leads to it, and the number of the port
// to the other one.
func TestForwardInside(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		need.CannotRun(t, "there is no python3")
	}
	for _, backend := range []string{"native", "bwrap"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			b, port := newTestEnv(t), hostPort(t)
			b.env = append(b.env, "TETHER_URL="+startTether(t, "serve", "--sandbox-backend", backend).line(t))
			if got := b.tether(nil, "run", "-d", "--name", "web", "--allow-host", "example.com", "--", "sh", "-c", `"$0" -c "$1" "$2"; true`, python, serveInside, port); got.code != 0 {
				t.Fatalf("%+v", got)
			}
			if line := startUntilAny(t, b.command("logs", "-f", "web")); line != "listens\n" {
				t.Fatalf("%q", line)
			}
			got := b.tether(nil, "ports")
			if lines := strings.Split(strings.TrimSpace(got.stdout), "\n"); got.code != 0 || len(lines) != 2 || !strings.HasPrefix(lines[1], port+" ") || !strings.HasSuffix(lines[1], "inside") {
				t.Errorf("%+v", got)
			}
			_, inside, insideMessages := b.forwarded("web")
			_, host, hostMessages := b.forwarded("0:" + port)
			for range 2 {
				if text := said(t, inside, insideMessages); text != "inside" {
					t.Errorf("the command says %q", text)
				}
				if text := said(t, host, hostMessages); text != "host" {
					t.Errorf("the machine says %q", text)
				}
			}
			b.tether(nil, "kill", "web")
		})
	}
}

// Without a server, the ports of a command with a network of its own are forwarded, too.
func TestRunForwardsPortsInside(t *testing.T) {
	t.Parallel()
	needBubblewrap(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		need.CannotRun(t, "there is no python3")
	}
	b, port := newTestEnv(t), hostPort(t)
	cmd := b.command("run", "--forward-ports", "--allow-host", "example.com", "--", python, "-c", serveInside, port)
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
	address, found := strings.CutPrefix(strings.TrimSpace(line), "tether: port "+port+" of the command is forwarded to http://")
	if err != nil || !found {
		t.Fatalf("%q, %v", line, err)
	}
	if text := said(t, address, messages); text != "inside" {
		t.Errorf("the command says %q", text)
	}
}
