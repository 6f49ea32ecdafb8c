package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A command that a hint names works as it is printed, also if the server was named by --url.
func TestHintedCommands(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	bin := t.TempDir()
	if err := os.Symlink(b.self, filepath.Join(bin, "tether")); err != nil {
		t.Fatal(err)
	}
	url := tethertest.StartServer(t, server.Config{}).URL
	random(t, filepath.Join(b.work, "file"), 1)
	none := filepath.Join(t.TempDir(), "it's $HOME", "none")
	if got := b.tether(nil, "run", "--url", url, "--detach", "--name", "web", "--", "sleep", "600"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, args := range [][]string{
		{"kill", "--url", url, "unknown"},
		{"sessions", "--url", url, "--end", "unknown"},
		{"cp", "--url", url, "file", ":" + none + "/"},
		{"rm", "--url", url, "web"}, // the hint ends it
	} {
		got := b.tether(nil, args...)
		parts := strings.Split(got.stderr, "`")
		if got.code == 0 || len(parts) != 3 {
			t.Errorf("%q has no hint: %+v", args, got)
			continue
		}
		hint := exec.CommandContext(t.Context(), "sh", "-c", parts[1])
		hint.Dir, hint.Env = b.work, append(b.env, "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := hint.CombinedOutput(); err != nil {
			t.Errorf("%s: %v, %s", parts[1], err, out)
		}
	}
	if info, err := os.Stat(none); err != nil || !info.IsDir() {
		t.Errorf("%v", err)
	}
}

// Arguments of commands come from other clients. Escape sequences in them do not reach the terminal on which a
// shell offers the names of processes.
func TestCompletionIsPrintable(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	url := tethertest.StartServer(t, server.Config{}).URL
	if got := b.tether(nil, "run", "--url", url, "--detach", "--name", "web", "--", "sh", "-c", "sleep 600", "\x1b[2J"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := b.tether(nil, "__complete", "logs", "--url", url, ""); !strings.Contains(got.stdout, "web\tsh -c sleep 600 ?[2J\n") {
		t.Errorf("%+v", got)
	}
}
