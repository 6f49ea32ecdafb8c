package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// With --wait, commands wait for a server that does not run yet, and say so once.
func TestWaitForTheServer(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	file := filepath.Join(b.work, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"run": {"run", "--", "echo", "hi"},
		"ps":  {"ps"},
		"fs":  {"fs", "cat", file},
		"cp":  {"cp", ":" + file, file + "-copy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "unix://" + filepath.Join(t.TempDir(), "s")
			flags := 1 // behind the name of the command
			if name == "fs" {
				flags = 2
			}
			args := append(append(args[:flags:flags], "--wait", "10m", "--url", url), args[flags:]...)
			cmd := b.command(args...)
			var stdout, stderr sharedBuffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			tethertest.Eventually(t, func() error {
				if !strings.HasPrefix(stderr.String(), "tether: waiting for the server: ") || !strings.Contains(stderr.String(), url) {
					return fmt.Errorf("standard error %q", stderr.String())
				}
				return nil
			})
			startTether(t, "serve", "--listen", url).line(t)
			if err := cmd.Wait(); err != nil || strings.Count(stderr.String(), "waiting") != 1 || name == "run" && stdout.String() != "hi\n" {
				t.Errorf("%v: %q, %q", err, stdout.String(), stderr.String())
			}
		})
	}
}

// After the time of --wait, the error is that of the last attempt. The output of a transport command
// is not printed with each attempt.
func TestWaitForTheServerEndsWithTheLastError(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	for _, try := range []struct {
		args   []string
		begins string
	}{
		{[]string{"--url", "unix://" + b.tmp + "/missing"}, "tether: waiting for the server: "},
		{[]string{"--url", "exec:sh -c 'echo complaint >&2; exit 3'"}, "tether: waiting for the server: "},
		{[]string{"--quiet", "--url", "unix://" + b.tmp + "/missing"}, ""},
	} {
		got := b.tether(nil, append(append([]string{"run", "--wait", "300ms"}, try.args...), "--", "true")...)
		lines := strings.SplitAfter(strings.TrimSuffix(got.stderr, "\n"), "\n")
		if n := len(lines); got.code != exitRefused || n > 2 || (n == 2) != (try.begins != "") || !strings.HasPrefix(got.stderr, try.begins) {
			t.Errorf("%q: %+v", try.args, got)
		}
	}
	if got := b.tether(nil, "run", "--wait", "10m", "--", "true"); got.code != exitRefused || !strings.Contains(got.stderr, "--wait needs a server to wait for") {
		t.Errorf("without an address: %+v", got)
	}
}
