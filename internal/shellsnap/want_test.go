package shellsnap

import (
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

func TestWanted(t *testing.T) {
	login := []string{"/bin/bash", "-lc", "true"}
	for _, test := range []struct {
		name, scope, shell, path string
		argv                     []string
		want                     bool
		err                      string
	}{
		{name: "login shell", scope: "s", shell: "bash", path: "/bin/bash", argv: login, want: true},
		{name: "with arguments", scope: "s", shell: "zsh", path: "zsh", argv: []string{"zsh", "-lc", "true", "zero", "one"}, want: true},
		{name: "longest scope", scope: strings.Repeat("é", 128), shell: "sh", path: "/bin/bash", argv: login, want: true},
		{name: "another path", scope: "s", shell: "bash", path: "/usr/bin/bash", argv: login},
		{name: "no login shell", scope: "s", shell: "bash", path: "/bin/bash", argv: []string{"/bin/bash", "-c", "true"}},
		{name: "no script", scope: "s", shell: "bash", path: "/bin/bash", argv: login[:2]},
		{name: "nothing", scope: "s", shell: "bash", path: "/bin/bash"},
		{name: "another shell that is no login shell", scope: "s", shell: "fish", path: "/bin/fish", argv: login},
		{name: "another shell", scope: "s", shell: "fish", path: "/bin/bash", argv: login, err: "shell snapshots are unsupported for shell `fish`"},
		{name: "no scope", shell: "fish", path: "x", err: ErrScope.Error()},
		{name: "scope too long", scope: strings.Repeat("é", 128) + "x", shell: "bash", path: "/bin/bash", argv: login, err: ErrScope.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &wire.ShellSnapshotRequest{ScopeID: test.scope, Shell: wire.ShellInfo{Name: test.shell, Path: test.path}}
			want, err := Wanted(r, test.argv)
			if (want != nil) != test.want || (err == nil) != (test.err == "") || err != nil && err.Error() != test.err {
				t.Errorf("got %+v, %v", want, err)
			}
		})
	}
	if want, err := Wanted(nil, login); want != nil || err != nil {
		t.Errorf("no request: %+v, %v", want, err)
	}
}
