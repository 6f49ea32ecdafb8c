package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// runIntoOneFile runs a command with one file as its standard output and standard error, and returns
// the content of the file.
func runIntoOneFile(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "both")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Run(); err != nil {
		t.Errorf("%q: %v", cmd.Args, err)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Lines on standard output and standard error keep their order if both are the same file, pipe
// or terminal here. The command has no terminal in any of these cases.
func TestRunKeepsTheOrderOfOutput(t *testing.T) {
	t.Parallel()
	lines := tethertest.Interleaved(1000)
	for name, url := range servers(t) {
		run := append(append([]string{"run"}, url...), "--", "sh", "-c", lines.Script)
		for to, get := range map[string]func(*testing.T, *exec.Cmd) string{
			"file": runIntoOneFile,
			"pipe": func(t *testing.T, cmd *exec.Cmd) string {
				var both bytes.Buffer
				cmd.Stdout, cmd.Stderr = &both, &both
				if err := cmd.Run(); err != nil {
					t.Error(err)
				}
				return both.String()
			},
			"terminal": onTerminal,
		} {
			t.Run(name+" to a "+to, func(t *testing.T) {
				if got := get(t, newTestEnv(t).command(run...)); got != lines.Both {
					t.Errorf("%q", got)
				}
			})
		}
	}
}

// onTerminal runs a command with a terminal as its standard output and standard error.
func onTerminal(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	cmd.Stdout, cmd.Stderr = slave, slave
	err = cmd.Start()
	slave.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(master) // ends with an error
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// The same in a sandbox.
func TestSandboxedRunKeepsTheOrderOfOutput(t *testing.T) {
	t.Parallel()
	lines := tethertest.Interleaved(1000)
	r := newSandboxEnv(t)
	for _, args := range [][]string{{"run", "--sandbox", "workspace-write"}, {"sandbox", "run"}} {
		if got := runIntoOneFile(t, r.command(append(args, "--", "sh", "-c", lines.Script)...)); got != lines.Both {
			t.Errorf("%q: %q", args, got)
		}
	}
}

// If standard output and standard error are two files, each gets its own stream.
func TestRunKeepsTwoFilesApart(t *testing.T) {
	t.Parallel()
	lines := tethertest.Interleaved(1000)
	for name, url := range servers(t) {
		b := newTestEnv(t)
		names := []string{filepath.Join(b.work, "out"), filepath.Join(b.work, "err")}
		cmd := b.command(append(append([]string{"run"}, url...), "--", "sh", "-c", lines.Script)...)
		var files []*os.File
		for _, name := range names {
			file, err := os.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			files = append(files, file)
		}
		cmd.Stdout, cmd.Stderr = files[0], files[1]
		if err := cmd.Run(); err != nil {
			t.Error(name, err)
		}
		for i, want := range []string{lines.Stdout, lines.Stderr} {
			if got, err := os.ReadFile(names[i]); string(got) != want || err != nil {
				t.Errorf("%s: %s has %q, %v", name, names[i], got, err)
			}
		}
	}
}

// The output of a detached command keeps its order in the log if both outputs of `tether run` were
// the same file.
func TestLogsKeepTheOrderOfOutput(t *testing.T) {
	t.Parallel()
	lines := tethertest.Interleaved(1000)
	b := newTestEnv(t)
	b.env = append(b.env, "TETHER_URL="+tethertest.StartServer(t, server.Config{}).URL)
	if got := runIntoOneFile(t, b.command("run", "--detach", "--name", "both", "--", "sh", "-c", lines.Script)); got != "both\n" {
		t.Fatalf("%q", got)
	}
	if got := b.tether(nil, "wait", "both"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, args := range [][]string{{"logs", "both"}, {"logs", "--follow", "--grep", ".", "both"}, {"attach", "both"}} {
		if got := runIntoOneFile(t, b.command(args...)); got != lines.Both {
			t.Errorf("%q: %q", args, got)
		}
	}
	if got := b.tether(nil, "logs", "both"); got.stdout != lines.Both || got.stderr != "" {
		t.Errorf("%+v", got)
	}
}

// A server without the feature oneStream, such as the reference, gives the command two pipes. Then
// the order is that of arrival, and no line is lost.
func TestRunOnAServerWithTwoStreams(t *testing.T) {
	t.Parallel()
	line := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	line.On(cable.FromServer, cable.Answer(wire.MethodInitialize).Always(), cable.Amend(func(members map[string]any) {
		delete(members["result"].(map[string]any), "tether")
	}))
	lines := tethertest.Interleaved(1000)
	got := runIntoOneFile(t, newTestEnv(t).command("run", "--url", line.URL(), "--", "sh", "-c", lines.Script))
	if stdout, stderr := lines.Split(got); stdout != lines.Stdout || stderr != lines.Stderr {
		t.Errorf("%q", got)
	}
}
