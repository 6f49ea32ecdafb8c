package confine

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/wire"
)

// socketAt makes the directory and listens on a path until the test ends.
func socketAt(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return path
}

// The sockets of a user's programs are hidden while the network is open, also in a
// writable directory, unless that is switched off.
func TestUserSocketsAreHidden(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMUX_TMPDIR", dir)
	tmux := socketAt(t, filepath.Join(dir, "tmux-"+strconv.Itoa(os.Geteuid()), "default"))
	agent := socketAt(t, filepath.Join(dir, "ssh-1", "agent.1"))
	other := socketAt(t, filepath.Join(dir, "other"))
	for _, open := range []bool{false, true} {
		b := newFixture(t, func(c *Config) { c.UserSockets = open })
		for _, row := range []struct {
			network wire.NetworkAccess
			entries string
			hidden  []string
		}{
			{wire.NetworkEnabled, "read :root", []string{tmux, agent}},
			{wire.NetworkEnabled, "read :root, write " + dir, []string{tmux, agent}},
			{wire.NetworkEnabled, "read :root, write " + dir + ", write " + agent, []string{tmux}},
			{wire.NetworkRestricted, "read :root", nil},
		} {
			o := b.must(b.request(intent(t, row.network, row.entries), "sh", "-c", `for s; do test -S "$s" && echo "$s"; done; true`, "sh", tmux, agent, other))
			var want []string
			for _, s := range []string{tmux, agent, other} {
				if open || !strings.Contains(strings.Join(row.hidden, "\n"), s) {
					want = append(want, s)
				}
			}
			if got := strings.TrimSpace(o.text.String()); got != strings.Join(want, "\n") {
				t.Errorf("open %v, %s: %s", open, row.entries, got)
			}
		}
	}
}

// A socket that is to be hidden may be removed before it is: agents start and end with
// logins.
func TestUserSocketVanishes(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMUX_TMPDIR", dir)
	b := newFixture(t, nil)
	for _, entries := range []string{"read :root", "read :root, write " + dir} {
		agent := socketAt(t, filepath.Join(dir, "ssh-1", "agent.1"))
		attempts := 0
		o := new(outcome)
		p, _, err := b.confiner.Start(t.Context(), b.request(intent(t, wire.NetworkEnabled, entries), "echo", "runs"), func(*Prepared) proc.Sink {
			if attempts++; attempts == 1 {
				if err := os.RemoveAll(filepath.Dir(agent)); err != nil {
					t.Error(err)
				}
			}
			return o
		})
		if err != nil {
			t.Fatalf("%s: %v", entries, err)
		}
		<-p.Done()
		if text := o.text.String(); text != "runs\n" {
			t.Errorf("%s: %s", entries, text)
		}
		if attempts != 2 {
			t.Errorf("%s: %d attempts", entries, attempts)
		}
	}
}
