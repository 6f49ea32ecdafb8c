package wire

import (
	"strings"
	"testing"
)

func TestDraftSandbox(t *testing.T) {
	const (
		root    = `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`
		project = `{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}`
		tmp     = `{"path":{"type":"special","value":{"kind":"slash_tmp"}},"access":"write"}`
		tmpdir  = `{"path":{"type":"special","value":{"kind":"tmpdir"}},"access":"write"}`
		extra   = `{"path":{"type":"path","path":"file:///srv/x"},"access":"write"}`
	)
	var kept []string
	for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
		kept = append(kept, `{"path":{"type":"special","value":{"kind":"project_roots","subpath":"`+name+`"}},"access":"read","missing_path_behavior":"skip"}`)
	}
	managed := func(network string, entries ...string) string {
		return `{"type":"managed","file_system":{"type":"restricted","entries":[` + strings.Join(entries, ",") + `]},"network":"` + network + `"}`
	}
	for in, want := range map[string]string{
		`{"mode":"disabled"}`:                                                                                                                       `{"type":"disabled"}`,
		`{"mode":"require","policy":{"type":"read-only"}}`:                                                                                          managed("restricted", root),
		`{"mode":"auto","policy":{"type":"read-only","network_access":true}}`:                                                                       managed("enabled", root),
		`{"mode":"require","policy":{"type":"workspace-write"},"unknown":5}`:                                                                        managed("restricted", append([]string{root, project, tmp, tmpdir}, kept...)...),
		`{"mode":"require","policy":{"type":"danger-full-access"}}`:                                                                                 `{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"}`,
		`{"mode":"require","policy":{"type":"external-sandbox"}}`:                                                                                   `{"type":"external","network":"restricted"}`,
		`{"mode":"require","fileSystemPolicy":{"kind":"unrestricted"}}`:                                                                             `{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}`,
		`{"mode":"require","fileSystemPolicy":{"kind":"external-sandbox"}}`:                                                                         `{"type":"external","network":"restricted"}`,
		`{"fileSystemPolicy":{"kind":"restricted","entries":[` + root + `]},"networkPolicy":"enabled","mode":"require"}`:                            managed("enabled", root),
		`{"mode":"require","policy":{"type":"danger-full-access"},"fileSystemPolicy":{"kind":"restricted","entries":[]}}`:                           managed("enabled"),
		`{"mode":"require","policy":{"type":"danger-full-access"},"networkPolicy":"restricted"}`:                                                    `{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}`,
		`{"mode":"require","policy":{"type":"workspace-write","writable_roots":["/srv/x"],"exclude_tmpdir_env_var":true,"exclude_slash_tmp":true}}`: managed("restricted", append([]string{root, project, extra}, kept...)...),
	} {
		var s Sandbox
		if err := Decode([]byte(in), &s); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := string(s.Permissions.AppendJSON(nil)); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", in, got, want)
		}
		if s.Draft == DraftNone || s.Disabled() != (s.Draft == DraftDisabled) {
			t.Errorf("%s: draft %q", in, s.Draft)
		}
	}
}

func TestDraftSandboxMembers(t *testing.T) {
	for _, cwd := range []string{"/home/dev", "file:///home/dev"} {
		var s Sandbox
		in := `{"mode":"require","policy":{"type":"read-only"},"sandboxPolicyCwd":"` + cwd + `","enforceManagedNetwork":true,"useLegacyLandlock":true,"windowsSandboxLevel":"x"}`
		if err := Decode([]byte(in), &s); err != nil {
			t.Fatal(err)
		}
		if len(s.WorkspaceRoots) != 1 || s.WorkspaceRoots[0].String() != "file:///home/dev" || s.Cwd.String() != "file:///home/dev" ||
			!s.EnforceManagedNetwork || !s.UseLegacyLandlock {
			t.Errorf("got %+v", s)
		}
	}
	// Beside permissions a mode is an unknown member.
	var s Sandbox
	if err := Decode([]byte(`{"mode":5,"permissions":{"type":"disabled"},"windowsSandboxLevel":"disabled"}`), &s); err != nil || s.Draft != DraftNone {
		t.Errorf("got %+v, %v", s, err)
	}
	for in, want := range map[string]string{
		`{"mode":"x"}`:                                                     "unknown variant `x`, expected one of `disabled`, `auto`, `require`",
		`{"mode":"require"}`:                                               "missing field `policy`",
		`{"mode":"auto","policy":null}`:                                    "missing field `policy`",
		`{"mode":"auto","policy":{}}`:                                      "missing field `type`",
		`{"mode":"auto","policy":{"type":"x"}}`:                            "unknown variant `x`, expected one of `danger-full-access`, `read-only`, `external-sandbox`, `workspace-write`",
		`{"mode":"auto","fileSystemPolicy":{"kind":"x"}}`:                  "unknown variant `x`, expected one of `restricted`, `unrestricted`, `external-sandbox`",
		`{"mode":"auto","fileSystemPolicy":{"kind":"restricted"}}`:         "missing field `entries`",
		`{"mode":"auto","networkPolicy":"x"}`:                              "unknown variant `x`, expected `restricted` or `enabled`",
		`{"mode":"auto","sandboxPolicyCwd":"rel"}`:                         "invalid URI: relative URL without a base",
		`{"mode":"auto","policy":{"type":"read-only","network_access":5}}`: "invalid type: integer `5`, expected a boolean",
	} {
		if err := Decode([]byte(in), new(Sandbox)); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", in, err, want)
		}
	}
}
