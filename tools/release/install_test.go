package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// install runs install.sh with a home directory of its own, and programs of the directory bin before all others.
func install(t *testing.T, bin string, args ...string) (text string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{"../../packaging/install.sh"}, args...)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// fake makes a directory with a program.
func fake(t *testing.T, name, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func needShell(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("install.sh is for Linux and macOS")
	}
}

// install.sh installs from a directory and from a web server, again over an older version, and tells where it has installed.
func TestInstall(t *testing.T) {
	t.Parallel()
	needShell(t)
	out := sharedRelease(t)
	server := httptest.NewServer(http.FileServer(http.Dir(out)))
	defer server.Close()
	prefix := filepath.Join(t.TempDir(), "new directory")
	for _, args := range [][]string{
		{"--prefix", prefix, "--from", out},
		{"--prefix=" + prefix, "--from=" + server.URL + "/", "--version=" + testVersion},
	} {
		text, ok := install(t, "", args...)
		if !ok || !strings.Contains(text, "installed tether "+testVersion+" in "+prefix+"/bin\n") || !strings.Contains(text, prefix+"/bin is not in PATH") {
			t.Fatalf("%v: %s", args, text)
		}
		for name, mode := range map[string]os.FileMode{
			"bin/tether": 0o755, "bin/tether-mcp": 0o755, "bin/tether-fleet": 0o755, "share/man/man1/tether.1": 0o644,
			"share/bash-completion/completions/tether": 0o644, "share/zsh/site-functions/_tether": 0o644, "share/fish/vendor_completions.d/tether.fish": 0o644,
			"share/doc/tether/THIRD-PARTY-LICENSES": 0o644,
		} {
			if info, err := os.Stat(filepath.Join(prefix, name)); err != nil || info.Mode() != mode {
				t.Errorf("%v: %s: %v %v", args, name, info, err)
			}
		}
		if err := os.WriteFile(filepath.Join(prefix, "bin/tether"), []byte("old"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// install.sh installs nothing that it cannot verify, and says why.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	needShell(t)
	out := sharedRelease(t)
	changed := func(change func(dir string) error) string {
		dir := t.TempDir()
		err := os.CopyFS(dir, os.DirFS(out))
		if err == nil {
			err = change(dir)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	archive := (&release{version: testVersion}).archive(platform{runtime.GOOS, runtime.GOARCH})
	damaged := changed(func(dir string) error {
		return os.WriteFile(filepath.Join(dir, archive), []byte("something else"), 0o600)
	})
	several := changed(func(dir string) error {
		sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), append(sums, strings.ReplaceAll(string(sums), "9.8.7", "9.8.6")...), 0o600)
	})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		bin  string
		args []string
		want string
	}{
		"damaged":   {"", []string{"--from", damaged}, archive + " does not have the checksum of SHA256SUMS"},
		"several":   {"", []string{"--from", several}, "has several archives for"},
		"no sums":   {"", []string{"--from", t.TempDir()}, "cannot read "},
		"version":   {"", []string{"--from", out, "--version", "1.0.0"}, "has version 9.8.7, not 1.0.0"},
		"system":    {fake(t, "uname", "echo SunOS"), []string{"--from", out}, "there is no archive for SunOS"},
		"processor": {fake(t, "uname", `[ "$1" = -s ] && echo Linux || echo sparc64`), []string{"--from", out}, "there is no archive for the processor sparc64"},
		"target":    {"", []string{"--from", out, "--prefix", file}, "this user cannot write to " + file + "/bin"},
		"argument":  {"", []string{"--form", out}, "unknown argument --form"},
		"no value":  {"", []string{"--from"}, "--from needs a value"},
	} {
		prefix := filepath.Join(t.TempDir(), "prefix")
		text, ok := install(t, row.bin, append([]string{"--prefix", prefix}, row.args...)...)
		if ok || !strings.Contains(text, "install.sh: ") || !strings.Contains(text, row.want) {
			t.Errorf("%s: %s", name, text)
		}
		if _, err := os.Stat(prefix); err == nil {
			t.Errorf("%s: something was installed", name)
		}
	}
}
