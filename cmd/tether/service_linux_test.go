package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/service/unit"
	"github.com/tetherexec/tether/internal/tethertest/executable"
)

// A user installs, looks at, changes and removes a service. In place of systemctl there is a program that writes its arguments down.
func TestServiceOfUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin, config, calls := filepath.Join(dir, "bin"), filepath.Join(dir, "config"), filepath.Join(dir, "calls")
	units := filepath.Join(config, "systemd", "user")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	systemctl := "#!/bin/sh\necho \"$*\" >>'" + calls + "'\ncase \"$*\" in *FAIL*) echo no >&2; exit 1;; *status*) echo loaded; exit 3;; esac\n"
	if err := executable.Write(filepath.Join(bin, "systemctl"), []byte(systemctl)); err != nil {
		t.Fatal(err)
	}
	env := []string{"XDG_CONFIG_HOME=" + config, "PATH=" + bin + ":" + os.Getenv("PATH"), "SUDO_USER="}
	tether := func(want int, args ...string) string {
		t.Helper()
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self, append([]string{"service"}, args...)...)
		cmd.Env = append(append(os.Environ(), beTether+"=1"), env...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Fatalf("tether service %v: exit code %d, want %d\n%s", args, code, want, out)
		}
		return string(out)
	}
	contains := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in:\n%s", want, text)
			}
		}
	}
	called := func(want ...string) {
		t.Helper()
		text, _ := os.ReadFile(calls)
		if got := strings.Split(strings.TrimSpace(string(text)), "\n"); !slices.Equal(got, want) {
			t.Errorf("systemctl was called with %q, want %q", got, want)
		}
		os.Remove(calls)
	}
	files := func(want ...string) {
		t.Helper()
		entries, _ := os.ReadDir(units)
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if !slices.Equal(got, want) {
			t.Errorf("unit files: %q, want %q", got, want)
		}
	}

	contains(tether(exitError, "status", "--user"), "is not installed; `tether service install` does that")
	contains(tether(exitError, "uninstall", "--user"), "is not installed")
	contains(tether(exitUsage, "install"), "with `--run-as USER`", "`--user`")
	contains(tether(exitUsage, "install", "--user", "--listen", "stdio"), "unsupported --listen URL `stdio`")
	contains(tether(exitError, "install", "--user", "--", "--session-ttl", "soon"), "these flags of serve are not possible", "session-ttl")
	contains(tether(exitError, "install", "--user", "--listen", "ws://0.0.0.0:1"), "without authentication")
	contains(tether(exitError, "install", "--run-as", "no such user"), "`--run-as no such user`")
	files()

	tether(exitOK, "install", "--user", "--no-start")
	files(unit.Service, unit.Socket)
	contains(tether(exitOK, "install", "--user", "--", "--session-ttl", "1h"), "wrote "+filepath.Join(units, unit.Socket), "enabled and started tether.socket")
	called("--user daemon-reload", "--user enable --now tether.socket")
	text, _ := os.ReadFile(filepath.Join(units, unit.Service))
	contains(string(text), " serve --listen systemd --session-ttl 1h\n", "Type=notify", "Delegate=yes")
	printed := tether(exitOK, "print", "--user", "--", "--session-ttl", "1h")
	contains(printed, "## tether.service\n"+string(text), "## tether.socket\n")
	contains(tether(exitOK, "status", "--user"), "loaded")
	called("--user status --no-pager tether.socket tether.service")

	contains(tether(exitOK, "install", "--user", "--listen", "ws://127.0.0.1:7070"), "removed "+filepath.Join(units, unit.Socket), "enabled and started tether.service")
	called("--user disable --now tether.socket", "--user daemon-reload", "--user enable --now tether.service")
	files(unit.Service)
	contains(tether(exitOK, "uninstall", "--user"), "removed "+filepath.Join(units, unit.Service))
	called("--user disable --now tether.service", "--user daemon-reload")
	files()

	if err := os.WriteFile(filepath.Join(units, unit.Service), []byte("[Unit]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	contains(tether(exitError, "install", "--user"), "was not written by `tether service install`")
	contains(tether(exitError, "uninstall", "--user"), "is not installed")
	files(unit.Service)

	if err := os.Rename(filepath.Join(units, unit.Service), filepath.Join(units, unit.Socket)); err != nil { // now the other file is foreign
		t.Fatal(err)
	}
	contains(tether(exitError, "install", "--user"), unit.Socket+" was not written by `tether service install`")
	files(unit.Socket)
	contains(tether(exitUsage, "install", "--user", "--", "--ws-issuer", "a\rUser=root"), "line breaks")
}
