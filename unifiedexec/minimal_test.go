package unifiedexec

import (
	"fmt"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// silentAboutItself makes a server answer initialize with the session's id only.
func silentAboutItself(line *cable.Cable) {
	line.On(cable.FromServer, cable.Answer(wire.MethodInitialize).Always(), cable.Amend(func(m map[string]any) {
		if result, ok := m["result"].(map[string]any); ok {
			m["result"] = map[string]any{"sessionId": result["sessionId"]}
		}
	}))
}

// If the handshake of a server does not describe it, the server is asked for its shell and its
// directory, once. Old servers report no more than these.
func TestMinimalServer(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	silentAboutItself(line)
	line.On(cable.FromServer, cable.Answer(wire.MethodEnvironmentInfo).Always(), cable.Amend(func(m map[string]any) {
		m["result"] = map[string]any{
			"shell": map[string]any{"name": "sh", "path": "/bin/sh"}, "cwd": "file:///usr",
			"capabilities": map[string]any{"fsWatchMissing": true},
		}
	}))
	questions := line.On(cable.FromClient, cable.Method(wire.MethodEnvironmentInfo).Always())
	r := newRigAt(t, line.URL(), func(c *Config) { c.Environments[0].Cwd = "" })
	for range 2 {
		wantEnd(t, r.sh("pwd"), 0, "/usr\n")
	}
	if argv := r.executor.starts()[0].Argv; argv[0] != "/bin/sh" {
		t.Errorf("started %q", argv)
	}
	if err := questions.Await(tethertest.Within(t), 1); err != nil || questions.Count() != 1 {
		t.Errorf("the server was asked %d times: %v", questions.Count(), err)
	}
}

// If a server does not have the method for that, no shell is known.
func TestServerWithoutInfo(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	silentAboutItself(line)
	line.On(cable.FromServer, cable.Answer(wire.MethodEnvironmentInfo).Always(), cable.Fail(wire.CodeMethodNotFound, "unknown method"))
	r := newRigAt(t, line.URL(), nil)
	_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "true"})
	wantError(t, err, ErrArguments, "environment `remote` does not report a shell")
}

// After a lost session the next server is asked again.
func TestMinimalServerReplaced(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	silentAboutItself(line)
	questions := line.On(cable.FromClient, cable.Method(wire.MethodEnvironmentInfo).Always())
	lazy := client.NewLazy(line.URL(), client.Options{})
	t.Cleanup(func() { lazy.Close() })
	r := newRigOn(t, RemoteLazy(lazy), nil)
	wantEnd(t, r.sh("echo one"), 0, "one\n")
	c, err := lazy.Get(tethertest.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := line.Aim(tethertest.StartServer(t, server.Config{}).URL); err != nil {
		t.Fatal(err)
	}
	line.Sever()
	tethertest.Eventually(t, func() error {
		if s := c.Status(); s.State != client.Failed {
			return fmt.Errorf("the client is %s", s.State)
		}
		return nil
	})
	wantEnd(t, r.sh("echo two"), 0, "two\n")
	if err := questions.Await(tethertest.Within(t), 2); err != nil || questions.Count() != 2 {
		t.Errorf("the servers were asked %d times: %v", questions.Count(), err)
	}
}
