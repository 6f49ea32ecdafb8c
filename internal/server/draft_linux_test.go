package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// File requests obey the draft form of a sandbox, as commands do.
func TestFileRequestsKeepToTheDraftForm(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	dir := t.TempDir()
	for _, name := range []string{"ws/a", "more/b", "out/secret"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := tethertest.StartServer(t, server.Config{})
	c := tethertest.Connect(t, s.URL)
	const access = `{"type":"restricted","readable_roots":["%s/more"]}`
	for _, policy := range []string{`{"type":"read-only","access":` + access + `}`, `{"type":"workspace-write","read_only_access":` + access + `,"exclude_slash_tmp":true}`} {
		for _, mode := range []string{"auto", "require", "disabled"} {
			sandbox := fmt.Sprintf(`{"mode":"%s","sandboxPolicyCwd":"%s/ws","policy":`+policy+`}`, mode, dir, dir)
			for name, open := range map[string]bool{"ws/a": true, "more/b": true, "out/secret": mode == "disabled"} {
				m := c.Call("fs/readFile", map[string]any{"path": wire.PathToURI(filepath.Join(dir, name)), "sandbox": json.RawMessage(sandbox)})
				if (m.Error == nil) != open {
					t.Errorf("with %s, a read of %s is answered %s", sandbox, name, m.Raw)
				}
			}
		}
	}
	m := c.Call("fs/readFile", map[string]any{"path": wire.PathToURI(filepath.Join(dir, "ws/a")), "sandbox": json.RawMessage(`{"mode":"auto","policy":{"type":"read-only","denied":[]}}`)})
	if m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("a policy with an unknown member is answered %s", m.Raw)
	}
}
