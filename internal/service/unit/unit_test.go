package unit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systemd accepts the unit files, and reads each argument as it was given.
func TestFiles(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	program := filepath.Join(t.TempDir(), "a program with $paces and 100%")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"system":         {Program: program, RunAs: "root"},
		"system, by URL": {Program: program, RunAs: "root", Listen: "ws://127.0.0.1:7070"},
		"user":           {Program: program, User: true},
		"arguments":      {Program: program, User: true, Args: []string{"--a", "50%", "$HOME", `with "quotes" and \`, "", "a;b", "a\rb"}},
	} {
		dir := t.TempDir()
		var paths []string
		for _, file := range o.Files() {
			path := filepath.Join(dir, file.Name)
			if err := os.WriteFile(path, []byte(file.Text), 0o644); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
		args := []string{"verify", "--man=no", "--recursive-errors=no"}
		if o.User {
			args = append(args, "--user")
		}
		cmd := exec.CommandContext(t.Context(), "systemd-analyze", append(args, paths...)...)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), dir) {
			t.Errorf("%s: %v\n%s\n%s", name, err, out, o.Files())
		}
	}
}

func TestArgument(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"--listen": "--listen", "": `""`, "a b": `"a b"`, "100%": "100%%", "$HOME": "$$HOME", `say "hi"`: `"say \"hi\""`,
		`\n`: `"\\n"`, "it's": `"it's"`, "#": `"#"`, ";": `";"`,
		"a\rUser=root\r": `"a\rUser=root\r"`,
	} {
		if got := argument(word); got != want {
			t.Errorf("%s: got %s, want %s", word, got, want)
		}
	}
}

// The name of a user has no quotes: systemd would take them as a part of it.
func TestUserOfUnits(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"build": "build", `CORP\alice`: `CORP\alice`, "machine$": "machine$", "a b": "a b", "50%": "50%%"} {
		files := Options{Program: "/bin/tether", RunAs: name}.Files()
		for i, line := range []string{"\nUser=" + want + "\n", "\nSocketUser=" + want + "\n"} {
			if !strings.Contains(files[i].Text, line) {
				t.Errorf("%s: %q is missing in %s", name, line, files[i].Text)
			}
		}
	}
}
