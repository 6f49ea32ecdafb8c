package embedded_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/embedded"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listeners returns the lines about sockets of this process that accept connections.
func listeners(t *testing.T) (found []string) {
	t.Helper()
	ours := map[string]bool{}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, "socket:[") {
			ours[strings.Trim(target, "socket:[]")] = true
		}
	}
	for name, column := range map[string]struct {
		state, inode int
		listens      string
	}{"unix": {3, 6, "00010000"}, "tcp": {3, 9, "0A"}, "tcp6": {3, 9, "0A"}} {
		f, err := os.Open("/proc/self/net/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) > column.inode && fields[column.state] == column.listens && ours[fields[column.inode]] {
				found = append(found, lines.Text())
			}
		}
	}
	return found
}

// The server works, and there is no socket that another process could connect to.
func TestNoSocketToConnectTo(t *testing.T) {
	control, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(listeners(t)); n != 1 {
		t.Fatalf("%d sockets are found, want one", n)
	}
	control.Close()

	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	s, err := embedded.Start(t.Context(), server.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := client.Dial(t.Context(), embedded.URL, client.Options{Connect: s.Connect})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"true"}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); exit.Code != 0 || err != nil {
		t.Errorf("%+v, %v", exit, err)
	}
	if found := listeners(t); found != nil {
		t.Errorf("the server listens: %q", found)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("the server has made %v (%v)", left, err)
	}
}

// A lost connection is replaced, and after Close there is none.
func TestConnectAgain(t *testing.T) {
	s, err := embedded.Start(t.Context(), server.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan net.Conn, 10)
	c, err := client.Dial(t.Context(), embedded.URL, client.Options{Connect: func(ctx context.Context) (net.Conn, error) {
		conn, err := s.Connect(ctx)
		if err == nil {
			made <- conn
		}
		return conn, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	(<-made).Close()
	if _, err := c.Environment(t.Context()); err != nil {
		t.Error(err)
	}
	if now := c.Status().Connection; now != 2 {
		t.Errorf("connection %d", now)
	}
	c.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Connect(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// When the server ends, its sessions end, and its clients are told.
func TestCloseWithAClient(t *testing.T) {
	s, err := embedded.Start(t.Context(), server.Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), embedded.URL, client.Options{Connect: s.Connect, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.Start(t.Context(), client.Command{Argv: []string{"sleep", "60"}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Wait(tethertest.Within(t)); !errors.Is(err, client.ErrServerStopped) {
		t.Errorf("the command ended with %v", err)
	}
}
