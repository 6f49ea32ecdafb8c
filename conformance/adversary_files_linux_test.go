package conformance

import (
	"os"
	"strings"
	"testing"
)

// Confined file requests cannot reach the server's own state, whatever path they use. Neither can commands under the same
// policy.
func TestAdversaryStateByFileRequests(t *testing.T) {
	list := append(policyCases(), policyCase{"read-only", readOnly()}, policyCase{"temporary", workspaceWrite()})
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.mkdir("$FX/state")
		fx.check(os.Chmod(fx.path("$FX/state"), 0o700))
		fx.write("$FX/state/spool", secretText)
		fx.symlink("$FX/state", "$WS/link")
		fx.symlink("$FX/state/spool", "$WS/spool")
		fx.handOver()
		s := a.own(t, append(a.argv(), "--state-dir", fx.dir+"/state"), nil)
		for _, c := range list {
			t.Run(c.name, func(t *testing.T) {
				ask := func(method, path string, result any) error {
					return s.call(method, fx.expand(map[string]any{"path": "file://" + path, "sandbox": c.policy.wire()}), result)
				}
				var read struct{ DataBase64 []byte }
				for _, path := range []string{"$FX/state/spool", "$WS/link/spool", "$WS/spool", "$WS/../state/spool"} {
					if err := ask("fs/readFile", path, &read); err == nil {
						t.Errorf("%s is %q", path, read.DataBase64)
					}
					if err := ask("fs/getMetadata", path, nil); err == nil {
						t.Errorf("the metadata of %s can be read", path)
					}
				}
				for _, path := range []string{"$FX/state", "$WS/link"} {
					if err := ask("fs/readDirectory", path, nil); err == nil {
						t.Errorf("%s is listed", path)
					}
				}
				var walk struct{ Entries []struct{ Path string } }
				err := s.call("fs/walk", fx.expand(map[string]any{"path": "file://$FX", "sandbox": c.policy.wire(), "options": map[string]any{
					"maxDepth": 9, "maxDirectories": 99, "maxEntries": 999, "followDirectorySymlinks": false, "pruneHiddenDirectories": false,
				}}), &walk)
				if err != nil {
					t.Errorf("walk: %v", err)
				}
				for _, e := range walk.Entries {
					if strings.HasSuffix(e.Path, "state/spool") {
						t.Errorf("a walk shows %s", e.Path)
					}
				}
				if err := ask("fs/readFile", "$WS/a.txt", &read); err != nil || string(read.DataBase64) != fileText {
					t.Errorf("the workspace: %q %v", read.DataBase64, err)
				}
			})
		}
	})
}
