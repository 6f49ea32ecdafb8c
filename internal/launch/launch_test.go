package launch

import (
	"testing"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/shellsnap"
	"github.com/tetherexec/tether/wire"
)

func startParams(id string, argv ...string) *wire.StartParams {
	var cwd wire.Cwd
	if err := wire.Decode([]byte(`"/"`), &cwd); err != nil {
		panic(err)
	}
	return &wire.StartParams{ProcessID: id, Argv: argv, Cwd: cwd, Env: map[string]string{"PATH": "/usr/bin:/bin"}}
}

// Starts that differ only in the draft form are different, for a retry and for
// snapshots of shells.
func TestDraftModeTellsStartsApart(t *testing.T) {
	texts := map[string]string{}
	for _, draft := range []string{
		`{"mode":"require","policy":{"type":"external-sandbox"}}`,
		`{"mode":"auto","policy":{"type":"external-sandbox"}}`,
		`{"mode":"auto","policy":{"type":"external-sandbox"},"enforceManagedNetwork":true}`,
	} {
		p := startParams("p", "true")
		p.Sandbox = new(wire.Sandbox)
		if err := wire.Decode([]byte(draft), p.Sandbox); err != nil {
			t.Fatal(err)
		}
		text := encode(*p)
		if same := texts[text]; same != "" {
			t.Errorf("%s and %s count as the same", same, draft)
		}
		texts[text] = draft
	}
}

// Commands whose environments make their sandboxes differ share no snapshot.
func TestSnapshotKeyTellsSandboxesApart(t *testing.T) {
	c := &Command{params: startParams("p", "sh"), snapshot: &shellsnap.Want{}}
	key := func(env ...string) string { return snapshotKey(c, proc.Spec{Env: env}) }
	for _, name := range []string{"TMPDIR", "SSL_CERT_FILE"} {
		if key(name+"=/a") == key(name+"=/b") || key(name+"=/a") == key() {
			t.Errorf("%s does not change the key", name)
		}
	}
	if key("OTHER=/a") != key("OTHER=/b") {
		t.Error("an irrelevant variable changes the key")
	}
}
