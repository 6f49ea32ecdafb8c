package shellsnap

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// profiles are the names of a login shell's own start-up file.
var profiles = map[string]string{"bash": ".bash_profile", "zsh": ".zprofile", "sh": ".profile"}

func shells(t *testing.T, f func(t *testing.T, name string)) {
	for _, name := range []string{"bash", "zsh", "sh"} {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}

// A restored command sees the same state as in a login shell.
func TestRestoreIsLikeLogin(t *testing.T) {
	for _, test := range []struct{ name, profile, script, only string }{
		{name: "function", profile: `greet() { echo "hello $1"; }`, script: `greet you`},
		{name: "function with quotes", profile: `q() { echo 'it'"'"'s' "$HOME" $'a\tb' ; }`, script: `q`},
		{name: "alias", profile: `[ -z "$BASH_VERSION" ] || shopt -s expand_aliases; alias hi='echo "aliased  it'\''s"'`, script: `hi`},
		{name: "alias over function", profile: `[ -z "$BASH_VERSION" ] || shopt -s expand_aliases; alias f='echo alias'; function f { echo function; }`, script: `f; \f`, only: "bash"},
		{name: "exported variables", profile: `export A="it's" B='two
lines' C= D='$x` + "`y`" + `\'`, script: `printf '[%s]' "$A" "$B" "${C-unset}" "$D"`},
		{name: "unset", profile: `unset GIVEN`, script: `echo "${GIVEN-gone}"`},
		{name: "bytes that are no text", profile: "export A=$'\\xff\\xfe'; f() { printf '\\376'; }", script: `printf %s "$A"; f`},
		{name: "positional parameters", script: `echo "$0|$#|$1|$2"`},
		{name: "exit status", script: `exit 7`},
		{name: "mask", profile: `umask 027`, script: `umask`},
		{name: "nounset", profile: `set -u`, script: `echo "$-"; (echo "$missing") 2>/dev/null || echo refused`},
		{name: "errexit", profile: `set -e`, script: `echo before; false; echo after`},
		{name: "noglob, noclobber", profile: `set -o noglob; set -C`, script: `echo *; echo x >new; (echo y >new) 2>/dev/null || echo refused`},
		{name: "xtrace", profile: `set -x`, script: `echo hi`, only: "bash"},
		{name: "allexport", profile: `set -a`, script: `NEW=1; env | grep -c '^NEW='`},
		{name: "extended patterns", profile: "shopt -s extglob\n" + `f() { case $1 in +(a)) echo match;; esac; }`, script: `f aaa`, only: "bash"},
		{name: "exported function", profile: `ef() { echo exported; }; export -f ef`, script: `bash -c ef`, only: "bash"},
		{name: "posix mode", profile: `set -o posix`, script: `set -o | grep posix`, only: "bash"},
		{name: "options of zsh", profile: `setopt extended_glob null_glob rc_quotes`, script: `setopt; echo none* 'it''s'`, only: "zsh"},
		{name: "global alias", profile: `alias -g LOUD='| tr a-z A-Z'`, script: `echo quiet LOUD`, only: "zsh"},
		{name: "functions to be loaded", profile: `mkdir -p $HOME/fn; echo 'print loaded' >$HOME/fn/later; fpath=($HOME/fn $fpath); autoload -U later`, script: `later`, only: "zsh"},
		{name: "no trace", script: `env | grep -c TETHER; set | grep -c '^__TETHER'; ls /proc/self/fd | wc -l`},
		{name: "own variables", script: `echo "$SHLVL $PWD"`},
		{name: "script of several lines", profile: `f() { echo f; }`, script: "f\n# remark\nfor i in 1 2; do\n echo $i\ndone"},
		{name: "script that ends in the middle", script: "echo 'never closed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			shells(t, func(t *testing.T, name string) {
				if test.only != "" && test.only != name {
					t.Skipf("only for %s", test.only)
				}
				b := newBench(t, map[string]string{profiles[name]: test.profile})
				want := b.run(name, true, test.script, "zero", "a b", "c")
				os.Remove(b.home + "/new")
				got := b.run(name, false, test.script, "zero", "a b", "c")
				if test.name == "script that ends in the middle" { // the error names the line, which differs
					if got == want || !strings.Contains(got, "exit ") || strings.HasSuffix(got, "exit 0") {
						t.Errorf("got %q, a login shell gives %q", got, want)
					}
					return
				}
				if got != want {
					t.Errorf("got %q, a login shell gives %q", got, want)
				}
			})
		})
	}
}

// Interactive start-up files are read too, once.
func TestReadsInteractiveFiles(t *testing.T) {
	for name, file := range map[string]string{"bash": ".bashrc", "zsh": ".zshrc"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, map[string]string{profiles[name]: "export A=profile", file: counting + "fromrc() { echo rc; }\nexport A=$A+rc"})
			for range 3 {
				if got, want := b.run(name, false, `fromrc; echo $A`), "rc\nprofile+rc\nexit 0"; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			if n := b.reads(); n != 1 {
				t.Errorf("%s was read %d times", file, n)
			}
		})
	}
}

// A snapshot that is larger than one variable is restored.
func TestRestoreLarge(t *testing.T) {
	var profile strings.Builder
	for i := range 300 {
		profile.WriteString("f" + strconv.Itoa(i) + "() { echo " + strings.Repeat("x", 1000) + strconv.Itoa(i) + "; }\n")
	}
	shells(t, func(t *testing.T, name string) {
		b := newBench(t, map[string]string{profiles[name]: profile.String()})
		if got := b.run(name, false, `f0 | tail -c 3; f299 | tail -c 4`); got != "x0\n299\nexit 0" {
			t.Errorf("got %q", got)
		}
	})
}

// Only the selected changes of the environment are made.
func TestRestoreChanges(t *testing.T) {
	s := &Snapshot{kind: Bash, Set: map[string]string{"A": "1", "B": "2"}, Unset: []string{"C", "D"}}
	_, env := s.Restore([]string{"bash", "-lc", ":"}, func(name string) bool { return name == "B" || name == "D" })
	text := strings.Join(env, "\n")
	for part, want := range map[string]bool{"export A=": false, "export B='2'": true, "unset -v C": false, "unset -v D": true} {
		if strings.Contains(text, part) != want {
			t.Errorf("%s: %t, want %t", part, !want, want)
		}
	}
}
