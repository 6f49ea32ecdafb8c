package main

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
)

// A server in the background of a script ignores SIGINT and SIGQUIT, with and without a keeper: they are meant for the program in the
// foreground. Its commands do not ignore them.
func TestServerInTheBackgroundOfAScript(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--keeper", "--no-keeper"} {
		b := newTestEnv(t)
		p := startProgram(t, nil, exec.CommandContext(t.Context(), "sh", "-c", `trap '' INT QUIT; exec "$0" serve "$1"`, b.self, flag))
		url := p.line(t)
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
			p.Process.Signal(sig)
			got := b.tether(nil, "run", "--url", url, "--", "sh", "-c", fmt.Sprintf("kill -%d $$; echo ignored", sig))
			if got.code != 128+int(sig) || got.stdout != "" {
				t.Errorf("%s: after %v: %+v", flag, sig, got)
			}
		}
		p.Process.Signal(syscall.SIGTERM)
		p.endsWith(t, 0)
	}
}
