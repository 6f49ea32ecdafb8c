package environ

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tetherexec/tether/wire"
)

// server is an environment with an example for every rule.
var server = []string{
	"PATH=/usr/bin:/bin", "HOME=/home/dev", "Lang=C", "EDITOR=vi", "monkey=1", "API_TOKEN=t", "My_Secret=s",
	"NODE_REPL_AUTH_TOKEN=x", "openai_federation_rule_id=y", "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE=1",
	"BROKEN=\xff", "\xfe=1", "NOEQUALS", "", "EMPTY=", "TWICE=1", "TWICE=2",
}

func policy(change func(*wire.EnvPolicy)) *wire.EnvPolicy {
	p := &wire.EnvPolicy{Inherit: wire.InheritAll}
	if change != nil {
		change(p)
	}
	return p
}

func text(s string) *string { return &s }

func TestBuild(t *testing.T) {
	tests := []struct {
		name     string
		policy   *wire.EnvPolicy
		overlay  map[string]string
		metadata *wire.StartMetadata
		want     []string
	}{
		{
			name: "no policy and no overlay is an empty environment",
			want: []string{},
		},
		{
			name:    "no policy means exactly the overlay",
			overlay: map[string]string{"B": "2", "A": "1", "SECRET_KEY": "mine"},
			want:    []string{"A=1", "B=2", "SECRET_KEY=mine"},
		},
		{
			name:   "all drops what looks like a credential, what is not UTF-8 and what is forbidden",
			policy: policy(nil),
			want:   []string{"EDITOR=vi", "EMPTY=", "HOME=/home/dev", "Lang=C", "PATH=/usr/bin:/bin", "TWICE=2"},
		},
		{
			name:   "default excludes can be switched off, forbidden names cannot",
			policy: policy(func(p *wire.EnvPolicy) { p.IgnoreDefaultExcludes = true }),
			want: []string{"API_TOKEN=t", "EDITOR=vi", "EMPTY=", "HOME=/home/dev", "Lang=C", "My_Secret=s",
				"PATH=/usr/bin:/bin", "TWICE=2", "monkey=1"},
		},
		{
			name:   "core compares names without regard to case",
			policy: policy(func(p *wire.EnvPolicy) { p.Inherit = wire.InheritCore }),
			want:   []string{"HOME=/home/dev", "Lang=C", "PATH=/usr/bin:/bin"},
		},
		{
			name: "none starts empty",
			policy: policy(func(p *wire.EnvPolicy) {
				p.Inherit = wire.InheritNone
				p.Set = map[string]string{"A": "1"}
			}),
			want: []string{"A=1"},
		},
		{
			name: "exclude drops by pattern, set brings back",
			policy: policy(func(p *wire.EnvPolicy) {
				p.Exclude = []string{"e*", "?OME"}
				p.Set = map[string]string{"EDITOR": "ed", "NEW_TOKEN": "n"}
			}),
			want: []string{"EDITOR=ed", "Lang=C", "NEW_TOKEN=n", "PATH=/usr/bin:/bin", "TWICE=2"},
		},
		{
			name: "includeOnly filters set too, but not the overlay or the metadata",
			policy: policy(func(p *wire.EnvPolicy) {
				p.Set = map[string]string{"A": "1", "PATHS": "p"}
				p.IncludeOnly = []string{"path*"}
			}),
			overlay:  map[string]string{"B": "2"},
			metadata: &wire.StartMetadata{ThreadID: text("t1")},
			want:     []string{"B=2", "CODEX_THREAD_ID=t1", "PATH=/usr/bin:/bin", "PATHS=p"},
		},
		{
			name: "the overlay is not excluded and wins over set",
			policy: policy(func(p *wire.EnvPolicy) {
				p.Inherit = wire.InheritNone
				p.Exclude = []string{"*"}
				p.Set = map[string]string{"A": "set"}
			}),
			overlay: map[string]string{"A": "overlay", "A_KEY": "k"},
			want:    []string{"A=overlay", "A_KEY=k"},
		},
		{
			name:     "metadata wins over the overlay",
			overlay:  map[string]string{"CODEX_THREAD_ID": "o", "CODEX_TOOL_CALL_ID": "o"},
			metadata: &wire.StartMetadata{ThreadID: text("t"), ToolCallID: text("c")},
			want:     []string{"CODEX_THREAD_ID=t", "CODEX_TOOL_CALL_ID=c"},
		},
		{
			name:     "metadata without values takes the names away",
			overlay:  map[string]string{"CODEX_THREAD_ID": "o", "CODEX_TOOL_CALL_ID": "o"},
			metadata: &wire.StartMetadata{},
			want:     []string{},
		},
		{
			name:    "without metadata only the call loses its name",
			overlay: map[string]string{"CODEX_THREAD_ID": "o", "CODEX_TOOL_CALL_ID": "o"},
			want:    []string{"CODEX_THREAD_ID=o"},
		},
		{
			name: "forbidden names go even when the client sets them",
			overlay: map[string]string{
				"Node_Repl_Auth_Token": "1", "OPENAI_IDENTITY_TOKEN_FILE": "f", "NODE_REPL_AUTH_TOKEN=x": "y",
				"CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE": "1", "codex_exec_server_exit_on_stdin_close": "kept",
			},
			want: []string{"codex_exec_server_exit_on_stdin_close=kept"},
		},
		{
			name:    "names with = and empty names pass",
			overlay: map[string]string{"A=B": "c", "": "empty"},
			want:    []string{"=empty", "A=B=c"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := build("linux", server, test.policy, test.overlay, test.metadata)
			if !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestBuildOnWindows(t *testing.T) {
	windows := []string{`=C:=C:\work`, `Path=C:\bin`, `ComSpec=C:\cmd.exe`, `HOME=h`, `ProgramFiles(x86)=p`}
	core := policy(func(p *wire.EnvPolicy) { p.Inherit = wire.InheritCore })

	got := build("windows", windows, core, map[string]string{"PATH": "overlay"}, nil)
	want := []string{`ComSpec=C:\cmd.exe`, `PATH=overlay`, `PATHEXT=.COM;.EXE;.BAT;.CMD`, `ProgramFiles(x86)=p`}
	if !slices.Equal(got, want) {
		t.Errorf("core: got  %q\nwant %q", got, want)
	}

	got = build("windows", append(windows, "PathExt=.EXE"), core, nil, nil)
	if !slices.Contains(got, "PathExt=.EXE") || slices.Contains(got, "PATHEXT="+windowsPathExt) {
		t.Errorf("an existing PATHEXT was replaced: %q", got)
	}

	got = build("windows", windows, policy(nil), nil, nil)
	if !slices.Contains(got, `=C:=C:\work`) {
		t.Errorf("the drive's directory is missing: %q", got)
	}
}

// Build gives the same result on every call, in whatever order maps are iterated.
func TestBuildIsDeterministic(t *testing.T) {
	overlay := map[string]string{}
	for c := 'a'; c <= 'z'; c++ {
		overlay[string(c)] = "lower"
		overlay[strings.ToUpper(string(c))] = "upper"
	}
	for _, goos := range []string{"linux", "windows"} {
		first := build(goos, server, policy(nil), overlay, nil)
		for range 20 {
			if again := build(goos, server, policy(nil), overlay, nil); !slices.Equal(first, again) {
				t.Fatalf("%s: %q, then %q", goos, first, again)
			}
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	p := policy(func(p *wire.EnvPolicy) {
		p.IgnoreDefaultExcludes = true
		p.Exclude = []string{"CODEX_PERMISSION_PROFILE", "CODEX_VERSION", "CODEX_*_ENDINGS", "CODEX_PLUGIN_METRICS_OUTPUT"}
	})
	var large []string
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		large = append(large, "SOME_VARIABLE_"+string(c)+"=with a value of ordinary length")
	}
	overlay := map[string]string{"TERM": "dumb", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "PAGER": "cat"}
	for b.Loop() {
		Build(large, p, overlay, nil)
	}
}

// fields makes a map of a fuzzer's text: lines of NAME=value.
func fields(lines string) map[string]string {
	values := map[string]string{}
	for line := range strings.SplitSeq(lines, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			values[name] = value
		}
	}
	return values
}

func list(lines string) []string {
	if lines == "" {
		return nil
	}
	return strings.Split(lines, "\n")
}

// FuzzEnvPolicy checks every environment, whatever the request:
//   - names are sorted and unique;
//   - there is no forbidden name;
//   - the variables of metadata and overlay are there;
//   - any other variable passed includeOnly, and is either in set or was inherited
//     and not excluded.
func FuzzEnvPolicy(f *testing.F) {
	f.Add("PATH=/bin\nAPI_KEY=k\nHOME=/h", byte(0), false, "H*", "A=1\nNODE_REPL_AUTH_TOKEN=1", "A\nP*", "Z=26", "thread")
	f.Add("PATH=/bin\nLang=C\nX=1", byte(1), true, "", "", "", "node_repl_auth_token=1", "")
	f.Add("A=\xff\nB=1", byte(2), false, "?\n*a*", "BIG_SECRET=1", "*", "", "")
	f.Fuzz(func(t *testing.T, inherited string, inherit byte, ignoreDefaults bool, exclude, set, includeOnly, overlay, thread string) {
		for _, s := range []string{exclude, set, includeOnly, overlay, thread} {
			if !utf8.ValidString(s) {
				t.Skip("the wire carries UTF-8")
			}
		}
		p := &wire.EnvPolicy{
			Inherit:               []wire.Inherit{wire.InheritAll, wire.InheritCore, wire.InheritNone}[inherit%3],
			IgnoreDefaultExcludes: ignoreDefaults,
			Exclude:               list(exclude), Set: fields(set), IncludeOnly: list(includeOnly),
		}
		over := fields(overlay)
		// An entry that begins with "=" cannot be told from one with an empty name.
		base := slices.DeleteFunc(list(inherited), func(entry string) bool { return strings.HasPrefix(entry, "=") })
		result := build("linux", base, p, over, &wire.StartMetadata{ThreadID: &thread})

		got := map[string]string{}
		var names []string
		for _, entry := range result {
			name, value, _ := strings.Cut(entry, "=")
			got[name] = value
			names = append(names, name)
			if forbidden(name) {
				t.Errorf("forbidden %q survived", name)
			}
		}
		if !slices.IsSorted(names) || len(got) != len(names) {
			t.Errorf("not sorted and unique: %q", names)
		}
		if got[threadIDVar] != thread {
			t.Errorf("thread id %q, want %q", got[threadIDVar], thread)
		}
		over[threadIDVar] = thread
		for name, value := range over {
			if !forbidden(name) && got[name] != value {
				t.Errorf("overlay %q is %q, want %q", name, got[name], value)
			}
		}
		maps.DeleteFunc(got, func(name, _ string) bool { _, ok := over[name]; return ok })
		for name, value := range got {
			checkPolicyAllows(t, p, base, name, value)
		}
	})
}

// checkPolicyAllows fails if the policy does not allow a variable that is neither
// in the overlay nor in the metadata.
func checkPolicyAllows(t *testing.T, p *wire.EnvPolicy, inherited []string, name, value string) {
	t.Helper()
	if len(p.IncludeOnly) > 0 && !matchesAny(compileAll(p.IncludeOnly), name) {
		t.Errorf("%q is not in includeOnly %q", name, p.IncludeOnly)
	}
	if set, ok := p.Set[name]; ok {
		if set != value {
			t.Errorf("%q is %q, set says %q", name, value, set)
		}
		return
	}
	if p.Inherit == wire.InheritNone || p.Inherit == wire.InheritCore && !isCore("linux", name) {
		t.Errorf("%q was inherited under %q", name, p.Inherit)
	}
	if !slices.Contains(inherited, name+"="+value) {
		t.Errorf("%q=%q is not the server's", name, value)
	}
	if matchesAny(compileAll(p.Exclude), name) {
		t.Errorf("%q is excluded by %q", name, p.Exclude)
	}
	if !p.IgnoreDefaultExcludes && matchesAny(defaultExcludes, name) {
		t.Errorf("%q is excluded by default", name)
	}
}

func TestWithShell(t *testing.T) {
	for _, c := range []struct {
		env   []string
		shell string
		want  []string
	}{
		{[]string{"A=1"}, "/bin/bash", []string{"A=1", "SHELL=/bin/bash"}},
		{[]string{"SHELL=/bin/zsh"}, "/bin/bash", []string{"SHELL=/bin/zsh"}},
		{[]string{"A=1"}, "", []string{"A=1"}},
	} {
		if got := WithShell(c.env, c.shell); !slices.Equal(got, c.want) {
			t.Errorf("WithShell(%q, %q) = %q, want %q", c.env, c.shell, got, c.want)
		}
	}
}
