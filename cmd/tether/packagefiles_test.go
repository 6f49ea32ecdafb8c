package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// packageFiles returns the files that packages get from the commands.
func packageFiles(t *testing.T) map[string]string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "files")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := printPackageFiles(out, "2026-01-31"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var files map[string]string
	if err := json.Unmarshal(text, &files); err != nil {
		t.Fatal(err)
	}
	return files
}

// Each command has a manual page with all its flags, each shell a completion, and the unit files start the packaged program.
func TestPackageFiles(t *testing.T) {
	t.Parallel()
	files := packageFiles(t)
	for _, name := range commandNames(newRoot(nil, nil, nil, io.Discard), "") {
		page := files["man/man1/"+strings.ReplaceAll(strings.TrimSpace("tether "+name), " ", "-")+".1"]
		if !strings.HasPrefix(page, ".TH TETHER") || !strings.Contains(page, ` 1 "2026-01-31" "tether `) {
			t.Errorf("tether %s: no manual page: %q", name, page)
		}
		namedCommand(name).LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(page, roff("--"+f.Name)) {
				t.Errorf("tether %s: its manual page does not have --%s", name, f.Name)
			}
		})
	}
	for name, want := range map[string]string{
		"completions/bash/tether": "complete -o", "completions/zsh/_tether": "#compdef tether", "completions/fish/tether.fish": "complete -c tether",
		"completions/powershell/tether.ps1": "Register-ArgumentCompleter",
		"systemd/system/tether.service":     "\nUser=tether\n", "systemd/system/tether.socket": "\nSocketUser=tether\n",
		"systemd/user/tether.service": "\nExecStart=/usr/bin/tether serve --listen systemd\n", "systemd/user/tether.socket": "\nListenStream=",
	} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s does not have %q:\n%.300s", name, want, files[name])
		}
	}
	// `tether service` replaces and removes files with its mark.
	if strings.Contains(files["systemd/system/tether.service"], "service install") {
		t.Error("the packaged unit looks as if `tether service install` had written it")
	}
}

// Texts look the same in a manual page: nothing in them is a request or an escape of roff.
func TestRoff(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"--a\n.hidden\n'x": "\\-\\-a\n\\&.hidden\n\\&'x", `C:\n`: `C:\en`, "": "",
	} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) = %q, want %q", text, got, want)
		}
	}
	if got, want := roffCode("use `--x` or `y`."), `use \fB\-\-x\fR or \fBy\fR.`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
