package main

import (
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/cable"
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

// The last lines of a long log are printed without a transfer of the output before them.
func TestLogsTailOfALongLog(t *testing.T) {
	t.Parallel()
	b, line := newTestEnv(t), cableToServer(t)
	b.env = append(b.env, "TETHER_URL="+line.URL())
	if got := b.tether(nil, "run", "--detach", "--name", "long", "--", "sh", "-c", "seq 1000000; echo error >&2"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := b.tether(nil, "wait", "long"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"--tail", "3"}, "999999\n1000000\n"}, // the third one may be on standard error
		{[]string{"--tail", "4000"}, "999999\n1000000\n"},
		{[]string{"--tail", "1000", "--grep", "^999998$"}, "999998\n"},
		{[]string{"--tail", "1", "--json"}, `"event":"closed"}` + "\n"},
	} {
		before := line.Stats().Bytes[cable.FromServer]
		got := b.tether(nil, append(append([]string{"logs"}, row.args...), "long")...)
		if lines := strings.Count(got.stdout+got.stderr, "\n"); row.args[1] == "4000" && lines != 4000 {
			t.Errorf("%d lines", lines)
		}
		if got.code != 0 || !strings.HasSuffix(got.stdout, row.want) {
			t.Errorf("%q: %d, %.100q, %q", row.args, got.code, got.stdout, got.stderr)
		}
		moved := line.Stats().Bytes[cable.FromServer] - before
		if whole := row.args[len(row.args)-1] == "^999998$"; whole != (moved > 6<<20) || !whole && moved > 4<<20 {
			t.Errorf("%q: %d bytes came from the server", row.args, moved)
		}
	}
}

// why names what the sandbox and the network have refused.
func TestWhyNamesRefusals(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.env = append(b.env, "TETHER_URL="+tethertest.StartServer(t, server.Config{}).URL)
	script := "for i in 1 2; do curl -s --noproxy '' -x $HTTP_PROXY http://refused.example/; done; exit 2"
	if got := b.tether(nil, "run", "--detach", "--name", "asks", "--allow-host", "other.example", "--", "sh", "-c", script); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	b.tether(nil, "wait", "asks")
	if got := b.tether(nil, "why", "asks"); got.code != 0 || got.stdout != "it has ended with exit code 2\n  refused refused.example:80 2 times: not_allowed\n" {
		t.Errorf("%+v", got)
	}
}
