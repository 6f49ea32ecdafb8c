package server_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// Permissions are sent to clients that ask for them, and to no others.
func TestPermissionsAreSentOnRequest(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	c := newFileClient(t)
	if err := os.WriteFile(c.at("f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.at("f"), 0o4751); err != nil {
		t.Fatal(err)
	}
	confined := json.RawMessage(`{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` +
		`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"path","path":"` + wire.PathToURI(c.dir) + `"},"access":"write"},` +
		`{"path":{"type":"path","path":"file:///srv"},"access":"deny"}]},"network":"restricted"},"windowsSandboxLevel":"disabled"}`)
	for _, sandbox := range []any{nil, confined} {
		for _, try := range []struct {
			asks any
			want string
		}{{nil, ""}, {false, ""}, {true, `,"tetherMode":489}`}} {
			m := c.ask(wire.MethodFsGetMetadata, "f", map[string]any{"tetherMode": try.asks, "sandbox": sandbox})
			result := string(m.Result)
			if m.Error != nil || strings.Contains(result, "tetherMode") != (try.want != "") || !strings.HasSuffix(result, try.want) {
				t.Errorf("asked %v in %s: %s", try.asks, sandbox, m.Raw)
			}
		}
	}
	// Errors have the texts of the reference.
	c.refused(c.ask(wire.MethodFsGetMetadata, "missing", map[string]any{"tetherMode": true}), -32004, "No such file or directory (os error 2)")

	// Setting attributes needs the rights that it would need without a sandbox, and is
	// never confined.
	at := time.Date(2001, 2, 3, 4, 5, 6, 7_000_000, time.UTC)
	set := func(name string, more map[string]any) tethertest.Message {
		return c.ask(wire.MethodFsSetAttributes, name, more)
	}
	if m := set("f", map[string]any{"mode": 0o640, "modifiedAtMs": at.UnixMilli()}); string(m.Result) != "{}" {
		t.Errorf("%s", m.Raw)
	}
	if info, err := os.Stat(c.at("f")); err != nil || info.Mode() != 0o640 || !info.ModTime().Equal(at) {
		t.Errorf("%v %v %v", info.Mode(), info.ModTime(), err)
	}
	if m := set("f", map[string]any{}); string(m.Result) != "{}" {
		t.Errorf("%s", m.Raw)
	}
	c.refused(set("f", map[string]any{"mode": 0o4755}), -32600, "mode 04755 has more than permissions")
	c.refused(set("f", map[string]any{"mode": 0o600, "sandbox": confined}), -32600, "tether/fs/setAttributes cannot be confined")
	c.refused(set("missing", map[string]any{"mode": 0o600}), -32004, "No such file or directory (os error 2)")
	if info, err := os.Stat(c.at("f")); err != nil || info.Mode() != 0o640 || !info.ModTime().Equal(at) {
		t.Errorf("%v %v %v", info.Mode(), info.ModTime(), err)
	}
}
