//go:build unix

// Package examples runs the examples.
package examples

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestExamples(t *testing.T) {
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin+"/", "./...").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, c := range []struct {
		command string
		want    []string
		code    int
	}{
		{"run", []string{"this is ", "and this is an error"}, 0},
		{"run sh -c false", nil, 1},
		{"pipe", []string{"16 MiB went there and came back through ", "the same: true"}, 0},
		{"copy", []string{"sent", "received"}, 0},
		{"agent", []string{"$ mktemp -d", "1 failed\nexit code 1", "all passed\nexit code 0", "$ rm -r "}, 0},
		{"http", []string{"200 OK", "a page that the executor can see"}, 0},
	} {
		t.Run(c.command, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			argv := strings.Fields(c.command)
			cmd := exec.CommandContext(ctx, filepath.Join(bin, argv[0]), argv[1:]...)
			cmd.Env = append(cmd.Environ(), "TETHER_URL=")
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d\n%s", code, out)
			}
			for _, want := range c.want {
				if !bytes.Contains(out, []byte(want)) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
		})
	}
}
