package confine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// A private path stays hidden at its place when the server started, even if a
// command changes a link in its name.
func TestRepointedPrivate(t *testing.T) {
	out, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(out+"/state", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(out+"/state/token", []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(out, ws+"/link"); err != nil {
		t.Fatal(err)
	}
	b := newFixture(t, func(c *Config) { c.Private = func() []string { return []string{ws + "/link/state"} } })
	b.ws = ws
	policy := intent(t, wire.NetworkRestricted, "read :root, write "+ws)
	for _, script := range []string{
		"cat $OUT/state/token",
		"rm link && mkdir -p fake/state && ln -s fake link; cat $OUT/state/token",
		"cat $OUT/state/token",
	} {
		o := b.must(b.request(policy, "sh", "-c", "exec 2>&1; "+strings.ReplaceAll(script, "$OUT", out)))
		if strings.Contains(o.text.String(), "secret") {
			t.Errorf("%s: %s", script, o.text.String())
		}
	}
}
