package confine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// A link that one command leaves behind opens nothing for the next command with the
// same rules.
func TestPlantedLinks(t *testing.T) {
	for name, row := range map[string]struct{ entries, plant, target string }{
		"to a protected name":         {"read :root, write $WS, write $WS/cache", "ln -s .git cache", "$WS/.git"},
		"below a protected name":      {"read :root, write $WS, write $WS/cache", "ln -s .git/hooks cache", "$WS/.git/hooks"},
		"for each other":              {"read :root, write $WS, write $WS/a, write $WS/b", "ln -s $OUT a; ln -s $OUT b", "$OUT"},
		"in what it opens":            {"read :root, write $WS/here", "rm here; ln -s $OUT here", "$OUT"},
		"to what alone is read-only":  {"write :root, read $OUT, write $WS/cache", "ln -s $OUT cache", "$OUT"},
		"to a protected name by .git": {"read :root, write $WS, read $WS/.git, write $WS/cache", "ln -s .git cache", "$WS/.git"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, nil)
			out, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(b.ws+"/.git/hooks", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(".", b.ws+"/here"); err != nil {
				t.Fatal(err)
			}
			at := strings.NewReplacer("$WS", b.ws, "$OUT", out).Replace
			policy := intent(t, wire.NetworkRestricted, at(row.entries))
			if _, err := b.run(b.request(policy, "sh", "-c", at(row.plant))); err != nil {
				t.Log("the link cannot be planted:", err)
			}
			o, err := b.run(b.request(policy, "sh", "-c", at("echo x > "+row.target+"/planted")))
			if _, found := os.Lstat(at(row.target) + "/planted"); found == nil {
				t.Errorf("%s was written: %+v", row.target, o)
			}
			if err == nil {
				t.Errorf("it was started, and ended with %d: %s", o.code, o.text.String())
			}
		})
	}
}
