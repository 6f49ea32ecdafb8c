package main

import (
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// logs says in one line, and in bytes, how much of the output is no longer kept.
func TestLogsReportDroppedOutput(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.env = append(b.env, "TETHER_URL="+tethertest.StartServer(t, server.Config{Retain: 1}).URL)
	if got := b.tether(nil, "run", "--detach", "--name", "much", "--", "sh", "-c", "head -c 8000000 /dev/zero; echo; echo last"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := b.tether(nil, "wait", "much"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	got := b.tether(nil, "logs", "--follow", "--grep", "^last$", "much")
	if got.code != 0 || got.stdout != "last\n" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "MiB of output are no longer kept\n") {
		t.Errorf("%d, %q, %q", got.code, got.stdout, got.stderr)
	}
}
