package unifiedexec

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// Scenario UE07.
func TestShellArguments(t *testing.T) {
	for _, row := range []struct {
		shell wire.ShellInfo
		login bool
		want  string
	}{
		{wire.ShellInfo{Name: "bash", Path: "/bin/bash"}, true, "/bin/bash -lc x"},
		{wire.ShellInfo{Name: "zsh", Path: "/bin/zsh"}, false, "/bin/zsh -c x"},
		{wire.ShellInfo{Name: "sh", Path: "/bin/sh"}, true, "/bin/sh -lc x"},
		{wire.ShellInfo{Name: "powershell", Path: "pwsh"}, true, "pwsh -Command x"},
		{wire.ShellInfo{Name: "powershell", Path: "pwsh"}, false, "pwsh -NoProfile -Command x"},
		{wire.ShellInfo{Name: "cmd", Path: "cmd.exe"}, true, "cmd.exe /c x"},
	} {
		if got := strings.Join(shellArgv(row.shell, row.login, "x"), " "); got != row.want {
			t.Errorf("%v: %s", row, got)
		}
	}
	r := newRig(t, nil)
	if got := r.exec(ExecArgs{Cmd: "shopt -q login_shell 2>/dev/null && echo login"}); got.Output != "login\n" {
		t.Logf("the default shell printed %q", got.Output) // it need not be bash
	}
	if argv := r.executor.starts()[0].Argv; argv[1] != "-lc" {
		t.Errorf("started %q", argv)
	}
}

// A shell that a call names is used, or the call is refused.
// Scenario UE07.
func TestChosenShell(t *testing.T) {
	bash := wire.ShellInfo{Name: "bash", Path: "/opt/bash"}
	near, far := Environment{ID: "local", Local: true}, Environment{ID: "remote"}
	for _, row := range []struct {
		at    Environment
		asked string
		own   wire.ShellInfo
		want  string // the path, or the error
	}{
		{far, "", bash, "/opt/bash"},
		{far, "bash", bash, "/opt/bash"},
		{far, "/usr/local/bin/bash", bash, "/usr/local/bin/bash"}, // the executor finds out whether it exists
		{far, "bin/bash", bash, "shell `bin/bash` is a relative path; use a name or an absolute path, or omit `shell`"},
		{far, "/bin/sh", bash, "environment `remote` only supports `bash`"},
		{far, "zsh", bash, "environment `remote` only supports `bash`"},
		{far, "fish", bash, "environment `remote` only supports `bash`"},
		{far, "bash", wire.ShellInfo{}, "environment `remote` does not report a shell"},
		{far, "", wire.ShellInfo{}, "environment `remote` does not report a shell"},
		{near, "", bash, "/opt/bash"},
		{near, "", wire.ShellInfo{}, "/bin/sh"},
		{near, "/bin/sh", bash, "/bin/sh"},
		{near, "bash", bash, "/opt/bash"},
		{near, "/nonexistent", bash, "shell `/nonexistent` is not supported; use `bash`, `zsh`, `sh`, `powershell` or `cmd`, or omit `shell`"},
		{near, "/nonexistent/bash", bash, "shell `/nonexistent/bash` does not exist or cannot be executed; use another one, or omit `shell`"},
		{near, "fish", bash, "shell `fish` is not supported; use `bash`, `zsh`, `sh`, `powershell` or `cmd`, or omit `shell`"},
		{near, "powershell.exe", bash, "shell `powershell.exe` is not installed; use another one, or omit `shell`"},
	} {
		got, err := row.at.chooseShell("linux", row.asked, row.own)
		switch {
		case err != nil:
			wantError(t, err, ErrArguments, row.want)
		case got.Path != row.want:
			t.Errorf("%q in %s: %v, want %s", row.asked, row.at.ID, got, row.want)
		}
	}
}

// Commands in zsh-fork mode are refused before anything is started or asked.
func TestZshForkIsRefused(t *testing.T) {
	e := ending()
	r := newRigOn(t, e, func(c *Config) {
		c.ShellMode = ShellZshFork
		c.Environments = append(c.Environments, Environment{ID: "local", Executor: e, Local: true})
	})
	for _, environment := range []string{"remote", "local"} {
		_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "x", Shell: "zsh", EnvironmentID: environment})
		wantError(t, err, ErrRejected, "exec_command failed: unified_exec zsh-fork is not supported in environment `"+environment+"`: its commands run on an executor, "+
			"where zsh cannot ask about each program before it runs it. Nothing was run; set the shell mode to direct")
	}
	if len(e.all()) != 0 || len(r.questions()) != 0 {
		t.Errorf("%d starts, %d questions", len(e.all()), len(r.questions()))
	}
}

// Scenarios UE08 and U05.
func TestForcedVariables(t *testing.T) {
	for _, name := range []string{"LANG", "PAGER"} { // in the environment of the program and of the executor
		t.Setenv(name, forcedVariables[name])
	}
	t.Setenv("TERM", "xterm")
	t.Setenv(noNetworkVariable, "1")
	r := newRig(t, func(c *Config) {
		c.Identity = Identity{ThreadID: "T", SessionID: "S", Version: "1.2"}
		c.Env = map[string]string{"MORE": "yes", "TERM": "vt100"}
	})
	got := r.exec(ExecArgs{Cmd: "env", Login: ptr(false), CallID: "C", MaxOutputTokens: ptr(2500)})
	want := maps.Clone(forcedVariables)
	maps.Copy(want, map[string]string{"MORE": "yes", "CODEX_THREAD_ID": "T", "CODEX_SESSION_ID": "S", "CODEX_VERSION": "1.2", "CODEX_TOOL_CALL_ID": "C"})
	for name, value := range want {
		if !strings.Contains("\n"+got.text, "\n"+name+"="+value+"\n") {
			t.Errorf("%s=%s is missing", name, value)
		}
	}
	if strings.Contains(got.text, noNetworkVariable) {
		t.Errorf("%s was inherited", noNetworkVariable)
	}
	for name, value := range forcedVariables { // sent whatever this environment has
		if sent, found := r.executor.starts()[0].Env[name]; !found || sent != value {
			t.Errorf("%s=%s was sent: %t", name, sent, found)
		}
	}
}

// Scenario UE22.
func TestConnectionLostForGood(t *testing.T) {
	t.Parallel()
	srv := tethertest.StartServer(t, server.Config{})
	cable := tethertest.LayCable(t, srv.URL)
	lazy := client.NewLazy(cable.URL(), client.Options{RecoveryTimeout: 300 * time.Millisecond})
	t.Cleanup(func() { lazy.Close() })
	r := newRigOn(t, RemoteLazy(lazy), nil)
	id := wantRunning(t, r.exec(ExecArgs{Cmd: "sleep 60", YieldTimeMs: ptr[int64](1)}), "")
	cable.Cut()
	_, err := r.WriteStdin(tethertest.Within(t), StdinArgs{SessionID: id, YieldTimeMs: ptr[int64](20000)})
	if !errors.Is(err, ErrProcessFailed) || !errors.Is(err, client.ErrSessionLost) || !strings.HasPrefix(err.Error(), "write_stdin failed: Unified exec process failed: ") {
		t.Errorf("the poll: %v", err)
	}
	_, err = r.WriteStdin(tethertest.Within(t), StdinArgs{SessionID: id})
	wantError(t, err, ErrUnknownSession, fmt.Sprintf("write_stdin failed: Unknown process id %d", id))
	cable.Mend()
	wantEnd(t, r.sh("echo again"), 0, "again\n")
}

// Scenario UE23.
func TestConnectionLostForAWhile(t *testing.T) {
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	r := newRigAt(t, cable.URL(), nil)
	id := r.wantShown(r.exec(ExecArgs{Cmd: "stty -echo; echo one; while read x; do echo \"[$x]\"; done", Login: ptr(false), TTY: true, YieldTimeMs: ptr[int64](1000)}), "one\r\n")
	var cut sync.WaitGroup
	cut.Go(func() { cable.CutFor(3 * time.Second) })
	got := r.stdin(id, "two\n", 6000)
	cut.Wait()
	r.wantShown(got, "[two]\r\n")
	if got := r.stdin(id, "\x04", atEnd); got.ExitCode == nil {
		t.Errorf("the end:\n%s", got.Text())
	}
	if cable.Links() < 2 {
		t.Error("the cable was not cut")
	}
}

// Scenario UE25.
func TestInterruptedTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	outcome := make(chan error, 1)
	go func() {
		_, err := r.ExecCommand(ctx, ExecArgs{Cmd: "echo kept; sleep 60", Login: ptr(false)})
		outcome <- err
	}()
	tethertest.Eventually(t, func() error {
		if len(r.Sessions()) == 0 {
			return errors.New("there is no session")
		}
		return nil
	})
	cancel()
	err := <-outcome
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	sessions := r.Sessions()
	if len(sessions) != 1 || sessions[0].ExitCode != nil || sessions[0].Script != "echo kept; sleep 60" {
		t.Fatalf("sessions %+v", sessions)
	}
	r.wantShown(r.stdin(sessions[0].ID, "", 1), "kept\n")
	r.Close()
	if n := r.executor.terminations(); n != 1 {
		t.Errorf("terminated %d times", n)
	}
	for _, e := range r.observed() {
		if e.Kind == Ended && e.ExitCode <= 0 {
			t.Errorf("the process ended with %d, %s", e.ExitCode, e.Output)
		}
	}
	if _, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "x"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.wantShown(r.exec(ExecArgs{Cmd: "echo up; sleep 60", Login: ptr(false), YieldTimeMs: ptr[int64](1000)}), "up\n")
	if err := r.Kill(tethertest.Within(t), id); err != nil {
		t.Fatal(err)
	}
	if got := r.stdin(id, "", atEnd); got.ExitCode == nil || *got.ExitCode <= 128 {
		t.Errorf("after Kill:\n%s", got.Text())
	}
	wantError(t, r.Kill(tethertest.Within(t), id), ErrUnknownSession, fmt.Sprintf("Unknown process id %d", id))
}

// No terminate is sent for a process that is done.
// Scenario U09.
func TestNoTerminateAfterClose(t *testing.T) {
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	closed := line.On(cable.FromServer, cable.Method("process/closed").Always())
	terminated := line.On(cable.FromClient, cable.Method("process/terminate").Always())
	r := newRigAt(t, line.URL(), nil)
	for range 3 {
		r.sh("echo x")
	}
	r.Close()
	if n := r.executor.terminations(); n != 0 {
		t.Errorf("%d terminations of finished processes", n)
	}
	if err := r.client.Ping(tethertest.Within(t)); err != nil { // its answer comes after all earlier messages
		t.Fatal(err)
	}
	if closed.Count() != 3 || terminated.Count() != 0 {
		t.Errorf("%d processes have closed, and %d were terminated", closed.Count(), terminated.Count())
	}
}

// A result that would be empty says what the process is doing.
func TestSilence(t *testing.T) {
	t.Parallel()
	c, err := client.Dial(tethertest.Within(t), tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if !c.Has(client.FeatureState) {
		t.Skip("the server does not report the state of processes here")
	}
	m, err := New(Config{Environments: []Environment{{ID: "e", Executor: Remote(c), Cwd: "/"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	for cmd, notes := range map[string]int{"exec cat": 1, "echo x; exec cat": 0} {
		got, err := m.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: cmd, Login: ptr(false), TTY: true, YieldTimeMs: ptr[int64](3000)})
		if err != nil || len(got.Notes) != notes || notes > 0 && !strings.Contains(got.Text(), "\nNote: no output; observed: ") {
			t.Errorf("%s: %v, notes %q", cmd, err, got.Notes)
		}
	}
}

// A result says which limits do not hold.
func TestShortfallOfLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	m, err := New(Config{Environments: []Environment{{ID: "e", Executor: Remote(r.client), Cwd: "/",
		Limits: &wire.Limits{DiskBytes: ptr[uint64](1 << 20), BestEffort: ptr(true)}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	got, err := m.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "true", Login: ptr(false)})
	if err != nil || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "the limit of disk space, 1 MiB, ") {
		t.Errorf("%v, %+v", err, got)
	}
}

// Close ends everything while many calls are under way.
func TestCloseWhileBusy(t *testing.T) {
	r := newRig(t, nil)
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for {
				_, err := r.ExecCommand(tethertest.Within(t), ExecArgs{Cmd: "sleep 60", Login: ptr(false), TTY: i%2 == 0})
				if errors.Is(err, ErrClosed) {
					return
				}
			}
		})
	}
	tethertest.Eventually(t, func() error {
		if n := len(r.Sessions()); n < 4 {
			return fmt.Errorf("%d sessions", n)
		}
		return nil
	})
	r.Close()
	calls.Wait()
	if n := len(r.Sessions()); n > 0 {
		t.Errorf("%d sessions are left", n)
	}
}
