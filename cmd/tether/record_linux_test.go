package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/cast"
	"github.com/tetherexec/tether/internal/cast/player"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// recorded reads the output in a recording.
func recorded(t *testing.T, name string) string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := cast.NewReader(file)
	var text strings.Builder
	for err == nil {
		var e cast.Event
		if e, err = r.Next(); e.Kind == cast.Output {
			text.WriteString(e.Text)
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	return text.String()
}

// counted is what a command prints that counts.
func counted(last int, newline string) string {
	var b strings.Builder
	for i := range last {
		fmt.Fprint(&b, i+1, newline)
	}
	return b.String()
}

// A recording that follows a command has each byte once, however often the connection is lost.
func TestRecordThroughCuts(t *testing.T) {
	t.Parallel()
	b, url := newTestEnv(t), tethertest.StartServer(t, server.Config{}).URL
	line := tethertest.LayCable(t, url)
	if got := b.tether(nil, "run", "--url", url, "--detach", "--name", "counting", "--tty", "--", "sh", "-c", "stty rows 33 cols 101; seq 100000"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := b.tether(nil, "wait", "--url", url, "counting"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	line.On(cable.FromServer, cable.Method(wire.NoteObservedOutput).Times(3), cable.SeverAfter)
	if got := b.tether(nil, "record", "--url", line.URL(), "--follow", "-o", "out.cast", "counting"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if links := line.Links(); links < 4 { // more, if the server still held the session for the connection before
		t.Errorf("only %d connections", links)
	}
	if got, want := recorded(t, filepath.Join(b.work, "out.cast")), counted(100000, "\r\n"); got != want {
		t.Errorf("recorded %d bytes, want %d", len(got), len(want))
	}
	text, err := os.ReadFile(filepath.Join(b.work, "out.cast"))
	if err != nil || !strings.HasPrefix(string(text), `{"version":2,"width":101,"height":33,`) { // the size that the terminal had last
		t.Errorf("%.100s, %v", text, err)
	}
	onlyFiles(t, b.work, "out.cast")
}

// Ctrl-C ends a recording that follows a command, which goes on. If its session or its server ends, the output until then is kept.
func TestRecordInterrupted(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	server := b.startPart(t, "serve", "--no-keeper", "--listen", "ws://127.0.0.1:0")
	b.env = append(b.env, "TETHER_URL="+server.line(t))
	for _, row := range []struct {
		name string
		end  func(record *exec.Cmd)
		want end
	}{
		{"stopped", func(record *exec.Cmd) { record.Process.Signal(os.Interrupt) }, end{0, "", "tether: stopped.cast has the output until now; the process runs on\n"}},
		{"ended", func(*exec.Cmd) { b.tether(nil, "sessions", "--end", "ended") }, end{1, "", ", and its output is gone\ntether: ended.cast has the output until then\n"}},
		{"lost", func(*exec.Cmd) { server.Process.Signal(syscall.SIGTERM) }, end{1, "", "tether: lost.cast has the output until then\n"}},
	} {
		if got := b.tether(nil, "run", "--detach", "--stdin", "--name", row.name, "--", "sh", "-c", "echo first; cat"); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		name := row.name + ".cast"
		cmd := b.command("record", "--follow", "-o", name, row.name)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tethertest.Eventually(t, func() error {
			parts, err := filepath.Glob(filepath.Join(b.work, "."+name+".*.part"))
			for _, part := range parts {
				if text, _ := os.ReadFile(part); strings.Contains(string(text), "first") {
					return nil
				}
			}
			return cmp.Or(err, errors.New("the output is not recorded yet"))
		})
		row.end(cmd)
		cmd.Wait()
		if got := (end{cmd.ProcessState.ExitCode(), "", stderr.String()}); got.code != row.want.code || !strings.HasSuffix(got.stderr, row.want.stderr) {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
		if got := recorded(t, filepath.Join(b.work, name)); got != "first\r\n" {
			t.Errorf("%s: recorded %q", row.name, got)
		}
	}
	onlyFiles(t, b.work, "ended.cast", "lost.cast", "stopped.cast")
}

// A recording says how much output the server no longer had, and has a marker there.
func TestRecordReportsDroppedOutput(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t)
	b.env = append(b.env, "TETHER_URL="+tethertest.StartServer(t, server.Config{Retain: 1}).URL)
	if got := b.tether(nil, "run", "--detach", "--name", "much", "--", "sh", "-c", "head -c 8000000 /dev/zero; echo; echo last"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := b.tether(nil, "wait", "much"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	got := b.tether(nil, "record", "-o", "much.cast", "much")
	if got.code != 0 || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "MiB of output are no longer kept\n") {
		t.Errorf("%+v", got)
	}
	text, err := os.ReadFile(filepath.Join(b.work, "much.cast"))
	if err != nil || strings.Count(string(text), `, "m", "output that is no longer kept is missing here"]`+"\n") != 1 || !strings.Contains(string(text), `last\r\n"]`) {
		t.Errorf("%v: %s", err, tail(text))
	}
}

// A process on any host of a fleet is recorded through its gateway.
func TestRecordThroughAGateway(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	f.startHost(t, "a")
	f.startHost(t, "b")
	_, url := f.startGateway(t)
	f.await(t, "a reachable", "b reachable")
	for _, host := range []string{"a", "b"} {
		if got := f.tether(nil, "run", "--url", url+"/?host="+host, "--detach", "--name", "on-"+host, "--", "sh", "-c", "seq 1000"); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		file := host + ".cast"
		if got := f.tether(nil, "record", "--url", url, "--follow", "-o", file, "on-"+host); got.code != 0 {
			t.Errorf("%+v", got)
		}
		if got, want := recorded(t, filepath.Join(f.work, file)), counted(1000, "\r\n"); got != want {
			t.Errorf("on %s: %q", host, got)
		}
	}
}

// On a terminal, a recording is shown as it is. Keys are not echoed, and Ctrl-C leaves the terminal as it was.
func TestPlayOnATerminal(t *testing.T) {
	t.Parallel()
	b, s := newTestEnv(t), newTestTerminal(t)
	t.Cleanup(s.leave)
	if err := os.WriteFile(filepath.Join(b.work, "long.cast"), []byte(`{"version": 2, "width": 300, "height": 24}
[0, "o", "\u001b[?1049h\u001b[31mready"]
[3600, "o", "never"]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(s.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}); err != nil {
		t.Fatal(err)
	}
	before, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	cmd := b.start(s, "play", "long.cast")
	s.until("tether: the recording is from a terminal of 300x24; this one has 100x24, so that lines may look wrong\r\n")
	s.until("\x1b[?1049h\x1b[31mready")
	s.typing("\x1b[24;80R\x03") // the answer of a terminal, and Ctrl-C
	if drawn := s.until(player.Reset); drawn != "" {
		t.Errorf("drawn %q", drawn)
	}
	if cmd.Wait(); cmd.ProcessState.ExitCode() != exitSignal+int(syscall.SIGINT) {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
	after, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal was %+v and is %+v, %v", before, after, err)
	}
	if unread, err := unix.IoctlGetInt(int(s.slave.Fd()), unix.TIOCINQ); err != nil || unread != 0 {
		t.Errorf("%d bytes of input are left, %v", unread, err)
	}
}
