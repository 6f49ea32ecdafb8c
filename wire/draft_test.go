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
		minimal = `{"path":{"type":"special","value":{"kind":"minimal"}},"access":"read"}`
		home    = `{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"read"}`
		readX   = `{"path":{"type":"path","path":"file:///srv/x"},"access":"read"}`

		access = `{"type":"restricted","include_platform_defaults":true,"readable_roots":["/srv/x"]}`
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
		`{"mode":"require","policy":{"type":"workspace-write"}}`:                                                                                    managed("restricted", append([]string{root, project, tmp, tmpdir}, kept...)...),
		`{"mode":"require","policy":{"type":"danger-full-access"}}`:                                                                                 `{"type":"managed","file_system":{"type":"unrestricted"},"network":"enabled"}`,
		`{"mode":"require","policy":{"type":"external-sandbox"}}`:                                                                                   `{"type":"external","network":"restricted"}`,
		`{"mode":"require","fileSystemPolicy":{"kind":"unrestricted"}}`:                                                                             `{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}`,
		`{"mode":"require","fileSystemPolicy":{"kind":"external-sandbox"}}`:                                                                         `{"type":"external","network":"restricted"}`,
		`{"fileSystemPolicy":{"kind":"restricted","entries":[` + root + `]},"networkPolicy":"enabled","mode":"require"}`:                            managed("enabled", root),
		`{"mode":"require","policy":{"type":"danger-full-access"},"fileSystemPolicy":{"kind":"restricted","entries":[]}}`:                           managed("enabled"),
		`{"mode":"require","policy":{"type":"danger-full-access"},"networkPolicy":"restricted"}`:                                                    `{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}`,
		`{"mode":"require","policy":{"type":"workspace-write","writable_roots":["/srv/x"],"exclude_tmpdir_env_var":true,"exclude_slash_tmp":true}}`: managed("restricted", append([]string{root, project, extra}, kept...)...),

		`{"mode":"require","policy":{"type":"read-only","access":` + access + `},"sandboxPolicyCwd":"/ws"}`:                                 managed("restricted", home, minimal, readX),
		`{"mode":"require","policy":{"type":"read-only","access":` + access + `},"sandboxPolicyCwd":"/"}`:                                   managed("restricted", minimal, readX),
		`{"mode":"require","policy":{"type":"read-only","access":` + access + `}}`:                                                          managed("restricted", minimal, readX),
		`{"mode":"require","policy":{"type":"read-only","access":{"type":"restricted","include_platform_defaults":false}}}`:                 managed("restricted"),
		`{"mode":"require","policy":{"type":"read-only","access":{"type":"restricted"}}}`:                                                   managed("restricted", minimal),
		`{"mode":"require","policy":{"type":"read-only","access":{"type":"full-access"}}}`:                                                  managed("restricted", root),
		`{"mode":"require","policy":{"type":"workspace-write","read_only_access":` + access + `},"sandboxPolicyCwd":"/ws"}`:                 managed("restricted", append([]string{minimal, readX, project, tmp, tmpdir}, kept...)...),
		`{"mode":"require","policy":{"type":"workspace-write","read_only_access":{"type":"full-access"},"exclude_slash_tmp":true}}`:         managed("restricted", append([]string{root, project, tmpdir}, kept...)...),
		`{"mode":"require","fileSystemPolicy":{"kind":"restricted"}}`:                                                                       managed("restricted"),
		`{"mode":"require","fileSystemPolicy":{"kind":"unrestricted","entries":[]}}`:                                                        `{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}`,
		`{"mode":"require","fileSystemPolicy":{"kind":"restricted","entries":[{"path":{"type":"path","path":"/srv/x"},"access":"write"}]}}`: managed("restricted", extra),
		`{"mode":"disabled","policy":{"type":"read-only","unknown":5},"unknown":5}`:                                                         `{"type":"disabled"}`,
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
		in := `{"mode":"require","policy":{"type":"read-only"},"sandboxPolicyCwd":"` + cwd + `","enforceManagedNetwork":true,"useLegacyLandlock":true,"windowsSandboxLevel":"x","windowsSandboxPrivateDesktop":true}`
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
		`{"mode":"auto","networkPolicy":"x"}`:                              "unknown variant `x`, expected `restricted` or `enabled`",
		`{"mode":"auto","sandboxPolicyCwd":"rel"}`:                         "invalid URI: relative URL without a base",
		`{"mode":"auto","policy":{"type":"read-only","network_access":5}}`: "invalid type: integer `5`, expected a boolean",
	} {
		if err := Decode([]byte(in), new(Sandbox)); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", in, err, want)
		}
	}
}

// An unknown member anywhere could be a restriction, and is refused.
func TestDraftSandboxRefusesWhatItCannotEnforce(t *testing.T) {
	unknown := func(name string) string {
		return "unknown field `" + name + "` in a sandbox with a `mode`: it could be a restriction that would not be enforced"
	}
	entry := func(text string) string {
		return `{"mode":"auto","fileSystemPolicy":{"kind":"restricted","entries":[` + text + `]}}`
	}
	for in, want := range map[string]string{
		`{"mode":"auto","policy":{"type":"read-only"},"filesystemPolicy":{}}`:                                                            unknown("filesystemPolicy"),
		`{"type":"x","mode":"auto","policy":{"type":"read-only"}}`:                                                                       unknown("type"),
		`{"mode":"require","policy":{"type":"danger-full-access","network_access":false}}`:                                               unknown("network_access"),
		`{"mode":"require","policy":{"type":"external-sandbox","readable_roots":[]}}`:                                                    unknown("readable_roots"),
		`{"mode":"require","policy":{"type":"read-only","read_only_access":{"type":"restricted"}}}`:                                      unknown("read_only_access"),
		`{"mode":"require","policy":{"type":"workspace-write","access":{"type":"restricted"}}}`:                                          unknown("access"),
		`{"mode":"require","policy":{"type":"read-only","access":{"type":"full-access","readable_roots":["/x"]}}}`:                       unknown("readable_roots"),
		`{"mode":"require","policy":{"type":"read-only","access":{"type":"restricted","denied_roots":["/x"]}}}`:                          unknown("denied_roots"),
		`{"mode":"require","fileSystemPolicy":{"kind":"unrestricted","denied":[]}}`:                                                      unknown("denied"),
		entry(`{"path":{"type":"path","path":"/x"},"access":"read","unless":"/x/y"}`):                                                    unknown("unless"),
		entry(`{"kind":"x","path":{"type":"path","path":"/x"},"access":"read"}`):                                                         unknown("kind"),
		entry(`{"path":{"type":"path","path":"/x","depth":1},"access":"read"}`):                                                          unknown("depth"),
		entry(`{"path":{"type":"special","value":{"kind":"root","subpath":"x"}},"access":"read"}`):                                       unknown("subpath"),
		entry(`{"path":{"type":"special","value":{"kind":"unknown","path":":new"}},"access":"none"}`):                                    "entry 0: an unknown special path cannot be enforced",
		entry(`{"path":{"type":"glob_pattern","pattern":"**/*.env"},"access":"read"}`):                                                   "entry 0: a glob pattern can only be denied",
		entry(`{"path":{"type":"path","path":"x"},"access":"read"}`):                                                                     "invalid URI: relative URL without a base",
		`{"mode":"require","policy":{"type":"read-only","access":{"type":"some"}}}`:                                                      "unknown variant `some`, expected `restricted` or `full-access`",
		`{"mode":"require","policy":{"type":"read-only","access":null}}`:                                                                 "invalid type: null, expected internally tagged enum ReadOnlyAccess",
		`{"mode":"require","fileSystemPolicy":{"kind":"unrestricted","entries":[{"path":{"type":"path","path":"/x"},"access":"deny"}]}}`: "`entries` need the kind `restricted`: they would not be enforced with the kind `unrestricted`",
	} {
		if err := Decode([]byte(in), new(Sandbox)); err == nil || err.Error() != want {
			t.Errorf("%s: %v; want %s", in, err, want)
		}
	}
	// The present form ignores unknown members, and has no plain paths.
	var s Sandbox
	present := `{"windowsSandboxLevel":"disabled","unknown":1,"permissions":{"type":"disabled","unknown":1}}`
	if err := Decode([]byte(present), &s); err != nil {
		t.Error(err)
	}
	if err := Decode([]byte(`{"windowsSandboxLevel":"disabled","permissions":{"type":"disabled"},"cwd":"/x"}`), &s); err == nil {
		t.Error("the present form accepted a plain path")
	}
}
