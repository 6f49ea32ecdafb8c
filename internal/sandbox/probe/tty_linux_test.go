package probe

import (
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

func TestTTYWithout(t *testing.T) {
	c := command(t, "tty")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	want := "isatty 0: false\nisatty 1: false\nisatty 2: false\nopen /dev/tty: ENXIO\nsize: ENOTTY\n" +
		"session leader: true\nforeground: ENOTTY"
	if r := finish(t, c); r.out != want {
		t.Errorf("got %q, want %q", r.out, want)
	}
	expect(t, "tiocsti: ENOTTY", "tiocsti")
}

func TestTTYWith(t *testing.T) {
	out := onTerminal(t, "tty")
	want := "isatty 0: true\nisatty 1: true\nisatty 2: true\nopen /dev/tty: ok\nsize: 99x33\n" +
		"session leader: true\nforeground: true"
	if out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	// Newer kernels allow it only for root.
	if out := onTerminal(t, "tiocsti"); out != "ok" && out != "tiocsti: EIO" {
		t.Errorf("tiocsti: %q", out)
	}
}

// onTerminal returns the output of a probe on a terminal of its own.
func onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	c := command(t, args...)
	terminal, err := pty.StartWithSize(c, &pty.Winsize{Cols: 99, Rows: 33})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	out, _ := io.ReadAll(terminal) // ends with EIO when the probe has ended
	_ = c.Wait()
	return strings.TrimSpace(strings.ReplaceAll(string(out), "\r", ""))
}
