package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/keep"
	"github.com/tetherexec/tether/internal/tethertest/need"
)

// activate starts a server as systemd does with a socket unit, and returns when it listens.
func activate(t *testing.T, l interface{ File() (*os.File, error) }, env []string, flags ...string) *keptServer {
	t.Helper()
	return awaitKeeper(t, startActivated(t, l, env, flags...))
}

func startActivated(t *testing.T, l interface{ File() (*os.File, error) }, env []string, flags ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, self, "serve", "--listen", "systemd"}, flags...)...)
	cmd.ExtraFiles = []*os.File{socket}
	p := startProgram(t, append(env, "LISTEN_FDS=1", "LISTEN_FDNAMES=tether.socket"), cmd)
	p.Path = self // for commands that the test runs with it
	return p
}

// listenSocket opens a socket file as a socket unit does. The test's own descriptor is the one of systemd.
func listenSocket(t *testing.T, mode os.FileMode) (*net.UnixListener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return l, path
}

// A server takes the socket of a socket unit; so do its next workers. It tells the manager that it is ready, alive and ending. Commands
// get nothing of that, and the socket file stays for the next server.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	if err := keep.Probe(); err != nil {
		need.CannotRun(t, "there is no keeper on this machine: %v", err)
	}
	for _, kind := range []string{"--keeper", "--no-keeper"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			l, path := listenSocket(t, 0o600)
			notify := filepath.Join(t.TempDir(), "notify")
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer manager.Close()
			told := make(chan string, 10_000)
			go func() { // ends with the manager; it reads all the time, because messages to a full socket are lost
				defer close(told)
				for {
					text := make([]byte, 100)
					n, err := manager.Read(text)
					if err != nil {
						return
					}
					told <- string(text[:n])
				}
			}()
			next := func() string {
				t.Helper()
				select {
				case text := <-told:
					return text
				case <-time.After(time.Minute):
					t.Fatal("the manager is told nothing")
					return ""
				}
			}
			server := activate(t, l, []string{"NOTIFY_SOCKET=" + notify, "WATCHDOG_USEC=400000"}, kind)
			if server.url != "unix://"+path {
				t.Errorf("the server listens on %s, and the socket is %s", server.url, path)
			}
			for got := ""; ; got = next() {
				if want := fmt.Sprintf("READY=1\nMAINPID=%d", server.Process.Pid); got == want {
					break
				}
				if got != "" && got != "WATCHDOG=1" {
					t.Fatalf("the manager was told %q", got)
				}
			}
			for range 3 {
				if got := next(); got != "WATCHDOG=1" {
					t.Errorf("the manager was told %q instead of signs of life", got)
				}
			}
			script := "env | grep -E '^(LISTEN_|NOTIFY_|WATCHDOG_)'; ls -l /proc/self/fd | grep -c socket"
			if out, _ := server.tether(t, "run", "--url", server.url, "--", "sh", "-c", script); out != "0\n" {
				t.Errorf("the command has of its server %q", out)
			}
			if kind == "--keeper" {
				server.killWorker(t)
				if out, code := server.tether(t, "run", "--url", server.url, "--", "echo", "again"); out != "again\n" {
					t.Errorf("after the worker has died: %q, %d", out, code)
				}
			}
			server.Process.Signal(syscall.SIGTERM)
			for got := next(); got != "STOPPING=1"; got = next() {
				if got != "WATCHDOG=1" {
					t.Fatalf("the manager was told %q", got)
				}
			}
			server.Wait()
			if _, err := os.Stat(path); err != nil {
				t.Errorf("the socket file of the manager is gone: %v", err)
			}
			again := activate(t, l, nil, kind) // the next server, on the same socket
			if out, code := again.tether(t, "run", "--url", again.url, "--", "echo", "next"); out != "next\n" {
				t.Errorf("of the next server: %q, %d", out, code)
			}
			again.stop(t)
		})
	}
}

// The rules about clients are those for sockets that the server opens itself.
func TestSocketActivationRefused(t *testing.T) {
	t.Parallel()
	all, err := net.Listen("tcp", "0.0.0.0:0") // no program connects to it
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	open, _ := listenSocket(t, 0o666)
	abstract, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("@tether-test-activation-%d", os.Getpid()), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	for _, tt := range []struct {
		what   string
		socket interface{ File() (*os.File, error) }
		flags  []string
		want   string
	}{
		{"every address", all.(*net.TCPListener), nil, "without authentication: every program that can reach it could run commands on this machine"},
		{"a socket for every user", open, nil, "every user of this machine can connect to it"},
		{"a name without a file", abstract, nil, "which is not a file"},
		{"TLS on a Unix socket", open, []string{"--tls-cert", "/dev/null", "--tls-key", "/dev/null"}, ""},
		{"another name", open, []string{"--listen", "systemd:other"}, ""},
	} {
		p := startActivated(t, tt.socket, nil, tt.flags...)
		p.stdout.WriteTo(new(strings.Builder))
		p.Wait()
		if code := p.ProcessState.ExitCode(); code == 0 || !strings.Contains(p.stderr.String(), tt.want) {
			t.Errorf("%s: exit code %d, %s", tt.what, code, p.stderr)
		}
	}
	p := startTether(t, "serve", "--listen", "systemd")
	p.stdout.WriteTo(new(strings.Builder))
	if p.Wait(); !strings.Contains(p.stderr.String(), "no service manager has handed a socket to this process") {
		t.Errorf("without a manager: %s", p.stderr)
	}
}
