package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// A process with oneStream has one pipe for both outputs, in a sandbox too. A process on a
// terminal is not affected.
func TestOneStream(t *testing.T) {
	t.Parallel()
	lines := tethertest.Interleaved(200)
	for _, row := range []struct {
		name   string
		bwrap  bool
		more   map[string]any
		stream string
	}{
		{"plain", false, nil, "stdout"},
		{"with input", false, map[string]any{"pipeStdin": true}, "stdout"},
		{"sandbox", true, map[string]any{"sandbox": json.RawMessage(`{"mode":"require","policy":{"type":"read-only"},"sandboxPolicyCwd":"/"}`)}, "stdout"},
		{"sandbox with input", true, map[string]any{"pipeStdin": true,
			"sandbox": json.RawMessage(`{"mode":"require","policy":{"type":"read-only"},"sandboxPolicyCwd":"/"}`)}, "stdout"},
		{"filter only", false, map[string]any{
			"sandbox": json.RawMessage(`{"permissions":{"type":"external","network":"restricted"},"windowsSandboxLevel":"disabled"}`)}, "stdout"},
		{"terminal", false, map[string]any{"tty": true}, "pty"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if row.bwrap {
				tethertest.NeedBubblewrap(t)
			}
			c := tethertest.Connect(t, tethertest.StartServer(t, server.Config{}).URL)
			params := tethertest.Shell("p", lines.Script, row.more)
			params["oneStream"] = true
			c.Start(params)
			out := c.Finish("p", 0)
			if got := strings.ReplaceAll(out.Text[row.stream], "\r\n", "\n"); got != lines.Both || len(out.Text) != 1 || out.ExitCode != 0 {
				t.Errorf("exit code %d, output %q", out.ExitCode, out.Text)
			}
		})
	}
}
