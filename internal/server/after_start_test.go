package server_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetherexec/tether/internal/server"
)

// A server is ready before it removes the directories of servers that were killed. It removes
// them even if it ends soon after its start.
func TestStateOfKilledServersIsRemovedAfterTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dead := filepath.Join(dir, "server-dead")
	if err := os.Mkdir(dead, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); err != nil {
		t.Errorf("removed before the server was ready: %v", err)
	}
	in, out := net.Pipe()
	in.Close() // the client has left
	if err := s.ServeStdio(t.Context(), in, out); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("still there after the server has ended: %v", err)
	}
}
