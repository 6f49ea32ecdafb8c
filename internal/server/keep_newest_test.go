package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// A process without a client waits when too much of its output is unread. With
// keepNewest it does not wait: it ends, and the newest output can be read.
func TestKeepNewest(t *testing.T) {
	s := tethertest.StartServer(t, server.Config{SpoolLimit: 1 << 20, Retain: 256 << 10})
	watcher := tethertest.Connect(t, s.URL)
	find := func(id string) (found wire.ProcessInfo) {
		var list wire.ListResult
		watcher.Must(wire.MethodProcessList, map[string]any{}, &list)
		for _, p := range list.Processes {
			if p.ProcessID == id {
				found = p
			}
		}
		return found
	}
	for _, keep := range []bool{false, true} {
		id, gate := fmt.Sprint("p-", keep), filepath.Join(t.TempDir(), "gate")
		c := tethertest.Connect(t, s.URL)
		c.Must(wire.MethodProcessStart, map[string]any{"processId": id, "argv": []string{"/bin/sh", "-c", "until [ -e " + gate + " ]; do sleep 0.02; done; head -c 8000000 /dev/zero; echo last"},
			"cwd": "/", "env": map[string]string{"PATH": "/usr/bin:/bin"}, "tty": false, "keepNewest": keep}, nil)
		c.Close()
		awaitAlone(t, watcher)
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		tethertest.Eventually(t, func() error {
			switch p := find(id); {
			case keep && p.State != wire.StateClosed, !keep && !p.Blocked:
				return fmt.Errorf("%+v", p)
			case p.HeldBytes > 3<<20:
				return fmt.Errorf("%d bytes are held", p.HeldBytes)
			}
			return nil
		})
	}
}

// awaitAlone waits until no other session has a client.
func awaitAlone(t *testing.T, c *tethertest.Client) {
	t.Helper()
	tethertest.Eventually(t, func() error {
		var list struct {
			Sessions []struct{ Attached bool }
		}
		c.Must("tether/session/list", nil, &list)
		attached := 0
		for _, session := range list.Sessions {
			if session.Attached {
				attached++
			}
		}
		if attached != 1 {
			return fmt.Errorf("%d sessions have a client", attached)
		}
		return nil
	})
}
