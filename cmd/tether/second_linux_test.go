package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The released tether has only the names of some commands. It lists them as the complete program does, and leaves their help,
// the completion of their flags and their work to the second program, whose exit code is its own.
func TestSecondProgram(t *testing.T) {
	t.Parallel()
	dir, split, err := buildTagged("split", "tether")
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err != nil {
		t.Fatal(err)
	}
	tether := func(path string, args ...string) end {
		t.Helper()
		var out, stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), split, args...)
		cmd.Env = append(os.Environ(), "PATH="+path, "GORACE=atexit_sleep_ms=0")
		cmd.Stdout, cmd.Stderr = &out, &stderr
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return end{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
	}
	golden := func(name string) end {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("testdata", "help", name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		return end{stdout: string(text)}
	}
	if got, want := tether("", "help"), golden("tether"); got != want {
		t.Errorf("the list of commands: %+v", got)
	}
	second := filepath.Dir(mcpBuilt(t))
	for name, code := range map[string]int{
		nameCp: exitError, nameFs: exitError, nameDoctor: exitError, nameChaos: exitError,
		nameMCP: exitRefused, nameMCPRun: exitRefused, nameSandbox: exitRefused,
	} {
		for _, args := range [][]string{{name, "--help"}, {"help", name}} {
			if got, want := tether(second, args...), golden("tether "+name); got != want {
				t.Errorf("%v: %+v", args, got)
			}
			got := tether("", args...)
			if got.code != code || got.stdout != "" || !strings.HasPrefix(got.stderr, "tether: `tether "+name+"` needs the program tether-mcp") {
				t.Errorf("%v without the program: %+v", args, got)
			}
		}
	}
	if got := tether(second, "__complete", nameCp, "--verb"); got.code != exitOK || !strings.HasPrefix(got.stdout, "--verbose\t") {
		t.Errorf("completion: %+v", got)
	}
	url := startTether(t, "serve").line(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tether(second, nameFs, "cat", "--url", url, file); got != (end{stdout: "content"}) {
		t.Errorf("fs cat: %+v", got)
	}
	if got := tether(second, nameCp, "--url", url, file); got.code != exitUsage || !strings.HasSuffix(got.stderr, "try 'tether cp --help'.\n") {
		t.Errorf("cp with a wrong command line: %+v", got)
	}
}
