package conformance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Texts of the C library.
const (
	textROFS  = "Read-only file system"
	textACCES = "Permission denied"
	textNOENT = "No such file or directory"
	textPERM  = "Operation not permitted"
	textEXIST = "File exists"
	textBUSY  = "Device or resource busy"
)

// envFiles makes files that the globs of the table match, and one beside them.
func envFiles(fx *fixture) {
	fx.write("$WS/x.env", "x of env\n")
	fx.write("$WS/d/y.env", "y of env\n")
}

func readRows() []row {
	link := func(fx *fixture) { fx.symlink("$OUT", "$FX/link") }
	opened := func(fx *fixture) { fx.write("$OUT/open/f", "open text\n") }
	return []row{
		{id: "R01", policy: readOnly(), script: `cat $OUT/secret.txt`, out: []string{"top secret"}},
		{id: "R02", policy: minimalRead(), script: `cat $OUT/secret.txt`, exit: 1, denied: no, out: []string{textNOENT}},
		{id: "R03", policy: minimalRead(), script: `cat $WS/a.txt`, out: []string{"text of a"}},
		{id: "R04", policy: minimalRead(), script: `ls /`, check: onlySystem},
		{id: "R05", policy: files(special("project_roots", "read")), script: `true`,
			fails:     &failure{internalError, textNOENT},
			Reference: "the command is started and exits 101, denied"},
		{id: "R06", policy: readOnly().deny("$OUT/secret.txt"), script: `ls -l $OUT/secret.txt; cat $OUT/secret.txt`,
			exit: 1, denied: yes, out: []string{`^---------- .* 0 .*secret.txt`, textACCES}, not: []string{"top secret"}},
		{id: "R07", policy: readOnly().deny("$OUT"), script: `ls -ld $OUT; ls $OUT; cat $OUT/secret.txt`,
			exit: 1, denied: yes, out: []string{`^d---------`, "ls: .*" + textACCES, "cat: .*" + textACCES}},
		{id: "R08", policy: readOnly().deny("$OUT").with(at("$OUT/open", "write")), setup: opened,
			script: `echo new > $OUT/open/n && cat $OUT/open/n $OUT/open/f; ls -ld $OUT; ls $OUT; cat $OUT/secret.txt`,
			exit:   1, denied: yes, host: []string{"+$OUT/open/n"},
			out: []string{"^new", "^open text", "^d--x--x--x", "ls: .*" + textACCES, "cat: .*" + textNOENT}},
		{id: "R09", policy: readOnly().deny("$OUT").with(at("$OUT/open", "read")), setup: opened,
			script: `cat $OUT/open/f; echo x > $OUT/open/n; cat $OUT/secret.txt`,
			exit:   1, denied: yes, out: []string{"^open text", textROFS, "cat: "}, not: []string{"top secret"}, host: []string{"-$OUT/open/n"},
			Reference: "a readable directory below a denied one stays hidden"},
		{id: "R10", policy: workspaceOnly().with(glob("$WS/**/*.env", "deny")), setup: envFiles,
			script: `cat x.env; cat d/y.env; cat a.txt; echo late > late.env; cat late.env; rm -f x.env; mv x.env z`,
			exit:   1, denied: yes, out: []string{"x.env: " + textACCES, "d/y.env: " + textACCES, "^text of a", "^late", "rm: .*" + textBUSY, "mv: .*" + textBUSY}},
		{id: "R11", policy: workspaceOnly().with(glob("**/*.env", "deny")), setup: envFiles,
			script: `cat d/y.env`, exit: 1, denied: yes, out: []string{textACCES}},
		{id: "R11-no-cwd", policy: workspaceOnly().with(glob("**/*.env", "deny")).from(""), setup: envFiles, // the cwd of the process counts
			script: `cat d/y.env`, exit: 1, denied: yes, out: []string{textACCES}},
		{id: "R11-null-cwd", policy: workspaceOnly().with(glob("**/*.env", "deny")).also("cwd", nil), setup: envFiles,
			script: `cat d/y.env`, exit: 1, denied: yes, out: []string{textACCES}},
		{id: "R11-missing-cwd", policy: workspaceOnly().with(glob("**/*.env", "deny")).from("$FX/gone"), setup: envFiles, // nothing matches there
			script: `cat d/y.env && mkdir $FX/gone`, exit: 1, denied: yes, out: []string{textROFS}, not: []string{textACCES}, host: []string{"-$FX/gone"}},
		{id: "R12", policy: workspaceOnly().with(glob("codex-project-roots://**/*.env", "deny")), setup: envFiles,
			script: `cat d/y.env`, exit: 1, denied: yes, out: []string{textACCES}},
		{id: "R13", policy: workspaceOnly().with(glob("$WS/**/*.env", "deny")).scan(1), setup: envFiles,
			script: `cat x.env; cat d/y.env`, denied: no, out: []string{"x.env: " + textACCES, "^y of env"}},
		{id: "R14", policy: readOnly().with(glob("/**/*.env", "deny")), script: `true`,
			fails: &failure{invalidParams, "unreadable glob .* non-root directory"}, Reference: "the command is started and exits 1"},
		{id: "R15", policy: readOnly().with(glob("$WS/**/*.env", "read")), setup: envFiles, script: `cat x.env`, out: []string{"x of env"}},
		{id: "R16", policy: readOnly().with(glob("$WS/**/*.env", "write")), setup: envFiles, script: `echo x >> x.env`,
			exit: 2, denied: yes, out: []string{textROFS}},
		{id: "R17", policy: workspaceOnly().with(glob("$WS/priv*", "deny")), setup: func(fx *fixture) { fx.write("$WS/private/k", "key text\n") },
			script: `cat private/k`, exit: 1, denied: yes, out: []string{textACCES}, not: []string{"key text"},
			Reference: "directories that a glob matches stay readable"},
		{id: "R18", policy: workspaceOnly().deny("$OUT/secret.txt"), setup: func(fx *fixture) { fx.symlink("$OUT/secret.txt", "$WS/l") },
			script: `cat l`, exit: 1, denied: yes, out: []string{textACCES}},
		{id: "R19", policy: workspaceOnly().deny("$OUT/secret.txt"), setup: func(fx *fixture) { fx.link("$OUT/secret.txt", "$WS/h") },
			script: `cat h`, out: []string{"top secret"}},
		{id: "R20", policy: readOnly().deny("$FX/link"), setup: link, script: `cat $FX/link/secret.txt; cat $OUT/secret.txt`,
			exit: 1, denied: yes, out: []string{"link/secret.txt: " + textACCES, "out/secret.txt: " + textACCES},
			Reference: "the sandbox cannot be built"},
		{id: "R21", policy: workspaceOnly().deny("$WS/lnk/secret.txt"), setup: func(fx *fixture) { fx.symlink("$OUT", "$WS/lnk") },
			script: `true`, fails: &failure{invalidParams, "crosses writable symlink"}, Reference: "the command is started and exits 1, denied"},
		{id: "R22", policy: workspaceOnly().deny("$WS/nope/deep"), script: `mkdir -p nope/deep; echo x > nope`,
			exit: 2, denied: yes, out: []string{"mkdir: ", textROFS}, check: gone("$WS/nope")},
		{id: "R23", policy: readOnly().deny("$OUT/missing"), script: `ls $OUT`, out: []string{"^secret.txt"}},
		{id: "R24", policy: minimalRead().with(at("$FX/missing", "read")), script: `ls $FX`, out: []string{"^ws"}, not: []string{"missing"}},
		{id: "R25", policy: files(special("root", "deny"), special("minimal", "read"), special("project_roots", "read")),
			script: `cat $WS/a.txt; cat $OUT/secret.txt`, exit: 1, denied: no, out: []string{"text of a", textNOENT}},
		{id: "R26", policy: readOnly().with(at("$OUT", "read"), at("$OUT", "deny")), script: `cat $OUT/secret.txt`, exit: 1, denied: yes, out: []string{textACCES}},
		{id: "R27", policy: readOnly().with(at("$OUT", "read"), at("$OUT", "write")), script: `echo x > $OUT/n`, host: []string{"+$OUT/n"}},
		{id: "R28", policy: files(), script: `true`, fails: &failure{invalidParams, "cwd .* is hidden by the sandbox"},
			Reference: "the command is started and exits 101, denied"},
		{id: "R28-root", policy: files(), script: `true`, cwd: "/", fails: &failure{internalError, textNOENT},
			Reference: "the command is started and exits 101, denied"},
	}
}

// globRows returns the rows about the meaning of patterns.
func globRows() []row {
	const tooWide = "unreadable glob .* cannot be safely expanded"
	pattern := func(id, text string) row {
		return row{id: id, policy: workspaceOnly().with(glob(text, "deny")), setup: envFiles, script: `true`,
			fails: &failure{invalidParams, tooWide}, Reference: "the command is started and exits 1"}
	}
	return []row{
		{id: "GL01", policy: workspaceOnly().with(glob("$WS/*.env", "deny")), setup: envFiles, script: `cat x.env; cat d/y.env`,
			exit: 1, denied: yes, out: []string{"x.env: " + textACCES, "d/y.env: " + textACCES},
			Reference: "without a search tool on the PATH, d/y.env stays readable"},
		pattern("GL02", "$WS/d"),
		pattern("GL03", "$WS/{a,b}"),
		{id: "GL04", policy: workspaceOnly().with(glob("$WS/**/*.many", "deny")), script: `true`, setup: func(fx *fixture) {
			for i := range 8193 {
				fx.check(os.WriteFile(fmt.Sprintf("%s/sub/%d.many", fx.ws, i), nil, 0o600))
			}
		}, fails: &failure{invalidParams, "unreadable glob expansion for .* matched more than 8192 paths"}, Reference: "the command is started and exits 1"},
		{id: "GL05", policy: workspaceOnly().with(glob("$WS/**/.hid*", "deny")), setup: func(fx *fixture) {
			fx.write("$WS/.gitignore", "*\n")
			fx.write("$WS/sub/.hidden", "key text\n")
		}, script: `cat sub/.hidden`, exit: 1, denied: yes, out: []string{textACCES}},
		{id: "GL06", policy: workspaceOnly().with(glob("$WS/**/*.env", "deny")), setup: func(fx *fixture) {
			fx.write("$WS/sub/plain", "key text\n")
			fx.symlink("$WS/sub/plain", "$WS/l.env")
		}, script: `true`, fails: &failure{invalidParams, "crosses writable symlink"}, Reference: "the command is started and exits 1"},
		{id: "GL07", policy: readOnly().with(glob("$FX/**/*.env", "deny")), setup: func(fx *fixture) { fx.symlink("$OUT/secret.txt", "$WS/l.env") },
			script: `cat l.env; cat $OUT/secret.txt`, exit: 1, denied: yes, out: []string{"l.env: " + textACCES, "secret.txt: " + textACCES}},
	}
}

// onlySystem checks that a listing of / has only system directories and the path to the workspace.
func onlySystem(t *testing.T, fx *fixture, o outcome) {
	t.Helper()
	way := func(path string) string { return strings.Split(path, "/")[1] }
	allowed := []string{"bin", "sbin", "usr", "etc", "lib", "lib32", "lib64", "libx32", "nix", "run", "dev", "proc", "tmp", way(fx.ws), way(suite.tether), way(suite.server.Argv[0])}
	names := strings.Fields(o.stdout)
	for _, name := range names {
		if !slices.Contains(allowed, name) {
			t.Errorf("/%s is visible", name)
		}
	}
	if !slices.Contains(names, "usr") || !slices.Contains(names, "proc") {
		t.Errorf("/usr or /proc is not visible")
	}
}
