package main

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// underNohup makes a command ignore SIGHUP.
func underNohup(cmd *exec.Cmd) *exec.Cmd {
	cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}, cmd.Args...)
	cmd.Path = "/bin/sh"
	return cmd
}

// Under nohup, the end of the login ends neither a command nor a copy.
func TestNohup(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	cmd := underNohup(b.command("run", "--", "sh", "-c", "echo ready; read x; echo got $x"))
	in, out := piped(t, cmd)
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	cmd.Process.Signal(syscall.SIGHUP)
	io.WriteString(in, "it\n")
	rest, _ := io.ReadAll(lines)
	if err := cmd.Wait(); err != nil || string(rest) != "got it\n" {
		t.Errorf("%v, %q", err, rest)
	}

	line := cableToServer(t)
	from, to := filepath.Join(b.work, "file"), t.TempDir()
	data := random(t, from, 1<<20)
	held := line.On(cable.FromServer, cable.Answer("tether/upload/write"), cable.Hold)
	cmd = underNohup(b.command("cp", "--url", line.URL(), from, ":"+to))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := held.Await(tethertest.Within(t), 1); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGHUP)
	held.Release()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	wantBytes(t, filepath.Join(to, "file"), data)
}

// If a signal comes before the server has answered, the exit code is that of the signal.
func TestSignalWhileConnecting(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := newTestEnv(t)
	b.env = append(b.env, "TETHER_URL=ws://"+l.Addr().String())
	for _, args := range [][]string{{"run", "true"}, {"attach", "x"}, {"logs", "x"}} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			cmd := b.command(args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := l.Accept() // and never answers
			if err != nil {
				t.Fatal(err)
			}
			cmd.Process.Signal(sig)
			if cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(sig) {
				t.Errorf("%q after %v: %v", args, sig, cmd.ProcessState)
			}
			conn.Close()
		}
	}
}

// Output that cannot be written is an error, also if the command did not notice.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	b := newTestEnv(t)
	b.env = append(b.env, "TETHER_URL="+tethertest.StartServer(t, server.Config{}).URL)
	file := filepath.Join(b.work, "file")
	random(t, file, 10)
	if got := b.tether(nil, "run", "-d", "--name", "x", "--", "sh", "-c", "echo hi; exec sleep 1000"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	for _, row := range []struct {
		code int
		args []string
	}{
		{exitRefused, []string{"run", "--", "echo", "hi"}},
		{exitRefused, []string{"attach", "x"}},
		{exitRefused, []string{"sandbox", "run", "--", "echo", "hi"}},
		{exitError, []string{"logs", "x"}},
		{exitError, []string{"ps", "--json"}},
		{exitError, []string{"cp", "--json", file, ":" + filepath.Join(b.work, "copy")}},
		{exitError, []string{"fs", "ls", "--json", b.work}},
		{exitError, []string{"fs", "ls", b.work}},
		{exitError, []string{"fs", "stat", "--json", file}},
		{exitError, []string{"fs", "stat", file}},
		{exitError, []string{"fs", "cat", file}},
	} {
		if row.args[0] == "sandbox" {
			needBubblewrap(t)
		}
		var stderr strings.Builder
		cmd := b.command(row.args...)
		cmd.Stdout, cmd.Stderr = full, &stderr
		cmd.Run()
		if cmd.ProcessState.ExitCode() != row.code || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%q: %v, %q", row.args, cmd.ProcessState, stderr.String())
		}
	}
	if got := b.tether(nil, "kill", "x"); got.code != 0 {
		t.Errorf("%+v", got)
	}
}

// tether waits for the output of a child in the background over a slow connection: nothing arrives
// until a whole piece has been sent, although the child keeps printing.
func TestRunOverASlowLine(t *testing.T) {
	t.Parallel()
	b, line := newTestEnv(t), cableToServer(t)
	line.SetRate(10_000)
	got := b.tether(nil, "run", "--url", line.URL(), "--", "sh", "-c", "(sleep 0.1; head -c 30000 /dev/zero) & exit 3")
	if got.code != 3 || len(got.stdout) != 30000 || got.stderr != "" {
		t.Errorf("code %d, %d bytes, %q", got.code, len(got.stdout), got.stderr)
	}
}

// A line that has not ended counts as one of the last.
func TestLogsTailOfUnfinishedLine(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	url := tethertest.StartServer(t, server.Config{}).URL
	c, err := client.Dial(tethertest.Within(t), url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.Start(tethertest.Within(t), client.Command{ID: "x", Argv: []string{"sh", "-c", `printf 'a\nb\nc'; exec sleep 1000`}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(p.Stdout(), make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[string]string{"0": "", "1": "c", "2": "b\nc", "9": "a\nb\nc"} {
		if got := b.tether(nil, "logs", "--url", url, "--tail", n, "x"); got.code != 0 || got.stdout != want {
			t.Errorf("--tail %s: %+v", n, got)
		}
	}
	cmd := b.command("logs", "-f", "--url", url, "--tail", "1", "x")
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Terminate(tethertest.Within(t)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != "c" {
		t.Errorf("-f: %v, %q", err, out.String())
	}
}
