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
// the completion of their flags and their work to its companions, whose exit codes are their own.
func TestCompanions(t *testing.T) {
	t.Parallel()
	split := built(t, buildSplit)
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
	both := second + string(os.PathListSeparator) + filepath.Dir(fleetBuilt(t))
	for _, row := range []struct {
		name, program string
		code          int
	}{
		{nameCp, "tether-mcp", exitError}, {nameFs, "tether-mcp", exitError}, {nameDoctor, "tether-mcp", exitError}, {nameChaos, "tether-mcp", exitError},
		{nameAppServer, "tether-mcp", exitError}, {nameUpgradeHost, "tether-mcp", exitError}, {nameReload, "tether-mcp", exitError}, {nameUpgrade, "tether-mcp", exitError}, {nameToken, "tether-mcp", exitError}, {nameSchema, "tether-mcp", exitError},
		{nameService, "tether-mcp", exitError}, {nameConsole, "tether-mcp", exitError}, {nameRecord, "tether-mcp", exitError}, {namePlay, "tether-mcp", exitError},
		{namePs, "tether-mcp", exitError}, {nameLogs, "tether-mcp", exitError}, {nameAttach, "tether-mcp", exitRefused}, {nameWhy, "tether-mcp", exitError},
		{nameWait, "tether-mcp", exitRefused}, {nameKill, "tether-mcp", exitError}, {nameRm, "tether-mcp", exitError}, {nameSessions, "tether-mcp", exitError},
		{aboutCompletion, "tether-mcp", exitError},
		{nameMCP, "tether-mcp", exitRefused}, {nameMCPRun, "tether-mcp", exitRefused}, {nameSandbox, "tether-mcp", exitRefused},
		{nameHub, "tether-fleet", exitError}, {nameGateway, "tether-fleet", exitError}, {nameHosts, "tether-fleet", exitError},
	} {
		name, code := row.name, row.code
		for _, args := range [][]string{{name, "--help"}, {"help", name}} {
			if got, want := tether(both, args...), golden("tether "+name); got != want {
				t.Errorf("%v: %+v", args, got)
			}
			got := tether("", args...)
			if got.code != code || got.stdout != "" || !strings.HasPrefix(got.stderr, "tether: `tether "+name+"` needs the program "+row.program+", ") {
				t.Errorf("%v without the program: %+v", args, got)
			}
		}
	}
	if got := tether(second, "__complete", nameCp, "--verb"); got.code != exitOK || !strings.HasPrefix(got.stdout, "--verbose\t") {
		t.Errorf("completion: %+v", got)
	}
	if got := tether(second, "__complete", "ser"); got.code != exitOK || !strings.HasPrefix(got.stdout, "serve\t") {
		t.Errorf("completion of a command: %+v", got)
	}
	if got := tether(second, "__complete", "serve", "--no-cons"); got.code != exitOK || !strings.HasPrefix(got.stdout, "--no-console\t") {
		t.Errorf("completion of a flag of tether itself: %+v", got)
	}
	if got := tether("", "__complete", "ser"); got.code != exitError || got.stdout != "" {
		t.Errorf("completion without the program: %+v", got)
	}
	if got := tether(both, "__complete", nameHub, "add-h"); got.code != exitOK || !strings.HasPrefix(got.stdout, "add-host\t") {
		t.Errorf("completion of a subcommand: %+v", got)
	}
	join := []string{"serve", "--join", "nats://127.0.0.1:1"}
	if got := tether("", join...); got.code != exitError || !strings.HasPrefix(got.stderr, "tether: `tether serve --join` needs the program tether-fleet, ") {
		t.Errorf("serve --join without the program: %+v", got)
	}
	if got := tether(both, join...); got.code != exitError || !strings.HasPrefix(got.stderr, "tether: `--join` requires `--creds`") {
		t.Errorf("serve --join: %+v", got)
	}
	if got := tether("", "serve", "--oidc-issuer", "https://issuer.example"); got.code != exitError || !strings.HasPrefix(got.stderr, "tether: `tether serve --oidc-issuer` needs the program tether-fleet, ") {
		t.Errorf("serve --oidc-issuer without the program: %+v", got)
	}
	if got := tether(both, "serve", "--oidc-issuer", "https://issuer.example"); got.code != exitError || !strings.HasPrefix(got.stderr, "tether: `--oidc-issuer` requires `--oidc-audience`") {
		t.Errorf("serve --oidc-issuer: %+v", got)
	}
	if got := tether("", "serve", "--otlp-endpoint", "http://localhost:4318"); got.code != exitError || !strings.HasPrefix(got.stderr, "tether: `tether serve --otlp-endpoint` needs the program tether-mcp, ") {
		t.Errorf("serve --otlp-endpoint without the program: %+v", got)
	}
	if got := tether("", "serve", "--creds", "x"); got.code != exitError || got.stderr != "tether: `--creds` requires `--join`\n" {
		t.Errorf("serve --creds: %+v", got)
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
