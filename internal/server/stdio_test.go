//go:build unix

package server_test

import (
	"errors"
	"io"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

func TestStdioEndsWithItsInput(t *testing.T) {
	check := tethertest.NothingLeft(t)
	t.Run("", func(t *testing.T) {
		c := tethertest.StartStdio(t, server.Config{})
		c.Handshake("")
		c.Start(tethertest.Shell("p", `trap "" TERM; sleep 60 & echo x; wait`, nil))
		c.AwaitEvent("p")
		c.Send("not json")
		m := c.Answer(-1)
		if m.Error == nil || m.Error.Message != "failed to parse JSON-RPC message from exec-server stdio: expected ident at line 1 column 2" {
			t.Errorf("answered %s", m.Raw)
		}
		c.Send("  \r")
		c.Must("environment/status", nil, nil)
	})
	check()
}

func TestStdioCannotResume(t *testing.T) {
	c := tethertest.StartStdio(t, server.Config{})
	m := c.Call("initialize", map[string]any{"clientName": "test", "resumeSessionId": "x"})
	if m.Error == nil || m.Error.Code != -32600 || m.Error.Message != "unknown session id x" {
		t.Errorf("answered %s", m.Raw)
	}
}

func TestStdioEndsAfterAViolation(t *testing.T) {
	c := tethertest.StartStdio(t, server.Config{})
	c.Handshake("")
	c.Notify("nonsense", nil)
	if err := c.Ended(); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
}
