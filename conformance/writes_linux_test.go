package conformance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// gone checks that nothing is left of a name, which may take a moment.
func gone(path string) func(*testing.T, *fixture, outcome) {
	return func(t *testing.T, fx *fixture, _ outcome) {
		t.Helper()
		tethertest.Eventually(t, func() error {
			if _, err := os.Lstat(fx.path(path)); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s is there (%v)", path, err)
			}
			return nil
		})
	}
}

// holds checks the content of a file afterwards.
func holds(path, text string) func(*testing.T, *fixture, outcome) {
	return func(t *testing.T, fx *fixture, _ outcome) {
		t.Helper()
		if got := fx.read(path); got != text {
			t.Errorf("%s holds %q, want %q", path, got, text)
		}
	}
}

// outside checks whether the file of writeOutside exists on the host, and removes it.
func outside(dir string, want bool) func(*testing.T, *fixture, outcome) {
	return func(t *testing.T, fx *fixture, _ outcome) {
		t.Helper()
		err := os.Remove(dir + "/" + fx.mark)
		if there := err == nil; there != want {
			t.Errorf("on the host, the file in %s is there: %v (%v)", dir, there, err)
		}
	}
}

// writeOutside is a script that writes a file with the mark of the fixture as its name into a directory of the machine.
func writeOutside(dir string) string { return `echo x > ` + dir + `/CONFORMANCE=$CONFORMANCE` }

func writeRows() []row {
	alias := func(fx *fixture) { fx.symlink("$WS", "$FX/alias") }
	aliased := `pwd; echo 1 > r; echo 2 > $FX/alias/al; echo 3 > $WS/re`
	return []row{
		{id: "W01", policy: readOnly(), script: `touch $WS/n`, exit: 1, denied: yes, out: []string{textROFS}, host: []string{"-$WS/n"}},
		{id: "W02", policy: workspaceWrite(), script: `echo x > $WS/n`, host: []string{"+$WS/n"}},
		{id: "W03", policy: workspaceWrite(), script: `echo x > $OUT/n`, exit: 2, denied: yes, out: []string{textROFS}, host: []string{"-$OUT/n"}},
		{id: "W04", policy: workspaceWrite(), script: writeOutside("/tmp"), check: outside("/tmp", true)},
		{id: "W05", policy: workspaceOnly(), script: writeOutside("/tmp"), exit: 2, denied: yes, out: []string{textROFS}, check: outside("/tmp", false)},
		{id: "W06", policy: workspaceWrite(), script: writeOutside("/var/tmp"), exit: 2, denied: yes, out: []string{textROFS}, check: outside("/var/tmp", false)},
		{id: "W07", policy: workspaceWrite(), script: writeOutside("/dev/shm"), check: outside("/dev/shm", false)},
		{id: "W08", policy: workspaceWrite(), setup: func(fx *fixture) { fx.symlink("$OUT", "$WS/l") }, script: `echo x > l/n`,
			exit: 2, denied: yes, out: []string{textROFS}, host: []string{"-$OUT/n"}},
		{id: "W09", policy: workspaceWrite(), script: `ln -s $OUT esc; echo x > esc/n`, exit: 2, denied: yes, out: []string{textROFS}, host: []string{"-$OUT/n"}},
		{id: "W10", policy: workspaceWrite(), probe: "rename $WS/a.txt $OUT/a.txt", exit: 1, denied: no, out: []string{"EXDEV"}, host: []string{"+$WS/a.txt", "-$OUT/a.txt"}},
		{id: "W11", policy: workspaceWrite(), probe: "rename $OUT/secret.txt $WS/s", exit: 1, denied: no, out: []string{"EXDEV"}, host: []string{"+$OUT/secret.txt", "-$WS/s"}},
		{id: "W12", policy: workspaceWrite(), probe: "link $OUT/secret.txt $WS/s", exit: 1, denied: no, out: []string{"EXDEV"}, host: []string{"-$WS/s"}},
		{id: "W13", policy: workspaceWrite(), setup: func(fx *fixture) { fx.link("$OUT/secret.txt", "$WS/h") },
			script: `echo more >> h`, check: holds("$OUT/secret.txt", secretText+"more\n")},
		{id: "W14", policy: workspaceWrite(), script: `: > $OUT/secret.txt`, exit: 2, denied: yes, out: []string{textROFS}, check: holds("$OUT/secret.txt", secretText)},
		{id: "W15", policy: workspaceWrite(), script: `chmod 644 $OUT/secret.txt`, exit: 1, denied: yes, out: []string{textROFS}},
		{id: "W16", policy: workspaceWrite(), script: `rm -f $OUT/secret.txt`, exit: 1, denied: yes, out: []string{textROFS}, host: []string{"+$OUT/secret.txt"}},
		{id: "W17", policy: workspaceWrite(), script: `mkdir $OUT/d`, exit: 1, denied: yes, out: []string{textROFS}, host: []string{"-$OUT/d"}},
		// The ordinary user lacks the permission, which the kernel checks first.
		{id: "W18", policy: workspaceWrite(), script: `: >> /etc/passwd`, exit: 2, denied: yes, out: []string{textROFS + "|" + textACCES}},
		{id: "W19", policy: rootWrite(), script: `echo x > $OUT/n`, host: []string{"+$OUT/n"}},
		{id: "W20", policy: rootWrite().deny("$OUT"), script: `echo x > $FX/n; cat $OUT/secret.txt; echo x > $OUT/n`,
			exit: 2, denied: yes, out: []string{"cat: .*" + textACCES}, host: []string{"+$FX/n", "-$OUT/n"},
			Reference: "the server of an ordinary user cannot build the sandbox"},
		{id: "W21", policy: rootWrite().with(at("$OUT", "read")), script: `echo x > $FX/n; cat $OUT/secret.txt; echo x > $OUT/n`,
			exit: 2, denied: yes, out: []string{"top secret", textROFS}, host: []string{"+$FX/n", "-$OUT/n"}},
		{id: "W22", policy: readOnly().with(at("$WS", "write"), at("$WS/a", "deny"), at("$WS/a/b", "write")),
			setup:  func(fx *fixture) { fx.write("$WS/a/k", "key text\n"); fx.mkdir("$WS/a/b") },
			script: `echo x > top; cat a/k; echo x > a/b/f; echo x > a/x`, exit: 2, denied: yes,
			out: []string{"cat: .*" + textNOENT, textROFS}, host: []string{"+$WS/top", "+$WS/a/b/f", "-$WS/a/x"}},
		{id: "W23", policy: readOnly().with(at("$WS", "write"), at("$WS/sub", "read")), script: `echo x > top; echo x > sub/n`,
			exit: 2, denied: yes, out: []string{textROFS}, host: []string{"+$WS/top", "-$WS/sub/n"}},
		{id: "W24", policy: readOnly().with(at("$WS/a.txt", "write")), script: `echo more >> a.txt; echo x > n`, exit: 2, denied: yes,
			out: []string{textROFS}, host: []string{"-$WS/n"}, check: holds("$WS/a.txt", fileText+"more\n"),
			Reference: "a file cannot be a writable root: exit 101"},
		{id: "W25", policy: readOnly().with(at("$FX/missing", "write")), script: `mkdir $FX/missing`, exit: 1, denied: yes, out: []string{textROFS}, host: []string{"-$FX/missing"}},
		{id: "W26", policy: workspaceOnly().in("$WS", "$FX/ws2"), setup: func(fx *fixture) { fx.mkdir("$FX/ws2") },
			script: `echo x > n; echo x > $FX/ws2/n`, host: []string{"+$WS/n", "+$FX/ws2/n"}},
		{id: "W27", policy: workspaceOnly().in(), script: `echo x > n`, exit: 2, denied: yes, out: []string{textROFS}, host: []string{"-$WS/n"}},
		{id: "W28", policy: workspaceOnly().in("$FX/ws2"), setup: func(fx *fixture) { fx.mkdir("$FX/ws2") },
			script: `echo x > $FX/ws2/n; echo x > n`, exit: 2, denied: yes, out: []string{textROFS}, host: []string{"-$WS/n", "+$FX/ws2/n"}},
		{id: "W29", policy: workspaceOnly().deny("$OUT").in("$OUT/nw"), setup: func(fx *fixture) { fx.mkdir("$OUT/nw") },
			script: `echo x > $OUT/nw/n; ls $OUT`, exit: 2, denied: yes, out: []string{"ls: .*" + textACCES}, host: []string{"+$OUT/nw/n"}},
		{id: "W30", policy: workspaceOnly().in("$WS", "$WS/inner"),
			setup:  func(fx *fixture) { fx.write("$WS/.git/config", "c\n"); fx.write("$WS/inner/.git/config", "c\n") },
			script: `echo x > inner/f; echo x > .git/config; echo x > inner/.git/config`, exit: 2, denied: yes,
			out: []string{"create .git/config: " + textROFS, "create inner/.git/config: " + textROFS}, host: []string{"+$WS/inner/f"}},
		{id: "W31", policy: workspaceOnly().in("$FX/alias").from("$FX/alias"), setup: alias, cwd: "$FX/alias", script: aliased,
			out: []string{"^$WS$"}, host: []string{"+$WS/r", "+$WS/al", "+$WS/re"}},
		{id: "W32", policy: minimalWrite().in("$FX/alias").from("$FX/alias"), setup: alias, cwd: "$FX/alias", script: aliased,
			denied: no, out: []string{"^$WS$", "alias/al: "}, host: []string{"+$WS/r", "-$WS/al", "+$WS/re"}},
		{id: "W33", policy: workspaceWrite(), cwd: "$FX/gone", script: `true`, fails: &failure{internalError, `^No such file or directory \(os error 2\)`}},
		{id: "W34", policy: workspaceOnly().in("$FX/gone").from("$FX/gone"), script: `touch n`, exit: 1, denied: yes, out: []string{textROFS}},
		{id: "W35", policy: workspaceOnly().in("$FX/gone"), script: `mkdir $FX/gone`, exit: 1, denied: yes, out: []string{textROFS}, host: []string{"-$FX/gone"}},
		{id: "W36", policy: readOnly().with(at("$WS", "write"), at("$WS/lnk/x", "read")), setup: func(fx *fixture) { fx.symlink("$OUT", "$WS/lnk") },
			script: `true`, fails: &failure{invalidParams, "crosses writable symlink"}, Reference: "the command is started and exits 1, denied"},
	}
}
