package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// messages returns the messages of a log about connections, sessions and commands.
func (p *program) messages(t *testing.T) (list []string) {
	t.Helper()
	for line := range strings.Lines(p.stderr.String()) {
		var entry struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if word, _, _ := strings.Cut(entry.Msg, " "); word == "connection" || word == "session" || word == "command" {
			list = append(list, entry.Msg)
		}
	}
	slices.Sort(list) // a short command may have exited before its start is logged
	return list
}

// use runs a command on the server, and ends the server.
func (p *program) use(t *testing.T) {
	t.Helper()
	c := tethertest.Connect(t, p.line(t))
	c.Start(tethertest.Shell("p", "true", nil))
	c.Finish("p", 0)
	p.Process.Signal(syscall.SIGTERM)
	if rest, err := io.ReadAll(p.stdout); err != nil || len(rest) > 0 {
		t.Errorf("more on standard output: %q, %v", rest, err)
	}
	p.Wait()
	if code := p.ProcessState.ExitCode(); code != 0 {
		t.Errorf("ended with %v; standard error: %s", p.ProcessState, p.stderr)
	}
}

// A server logs connections, sessions and commands unless it is told otherwise, as JSON where standard error is no terminal.
func TestServeLogs(t *testing.T) {
	t.Parallel()
	all := []string{"command exited", "command started", "connection ended", "session ended", "session opened"}
	for _, keeper := range []string{"--keeper", "--no-keeper"} {
		p := startTether(t, "serve", keeper)
		p.use(t)
		if got := p.messages(t); !slices.Equal(got, all) {
			t.Errorf("%s: the log has %q, want %q:\n%s", keeper, got, all, p.stderr)
		}
	}
	p := startTether(t, "serve", "--log-level", "warn")
	p.use(t)
	if text := p.stderr.String(); text != "" {
		t.Errorf("with --log-level warn: %s", text)
	}
	p = startTether(t, "serve", "--log-format", "text")
	p.use(t)
	if text := p.stderr.String(); strings.Count(text, "level=INFO msg=\"command ") != 2 {
		t.Errorf("with --log-format text: %s", text)
	}
}

// Nothing waits for the reader of standard error: not a request, and not the end of the server.
func TestUnreadLogDelaysNothing(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	fill(t, w)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "serve", "--no-keeper", "--log-level", "debug")
	cmd.Stderr = w
	startProgram(t, nil, cmd).use(t)
}

// fill writes to a pipe until it is full.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	if err := raw.Write(func(fd uintptr) bool {
		for {
			if _, err := syscall.Write(int(fd), block); err != nil {
				return true // EAGAIN: Go's pipes do not block
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// Lines that are not read are counted, and a line says how many are missing, in the form of the log.
func TestMissingLogLines(t *testing.T) {
	t.Parallel()
	for _, format := range []string{formatText, formatJSON} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		f := logFlags{level: choice{value: "info"}, format: choice{value: format}}
		log := f.open(w)
		for i := range 3 * maxLogLines {
			log.Info("a line", "number", i, "padding", strings.Repeat("x", 100))
		}
		dropped := f.dropped()
		if dropped == 0 {
			t.Fatalf("%s: no line was dropped", format)
		}
		read := make(chan string)
		go func() { // ends with the pipe
			text, _ := io.ReadAll(r)
			read <- string(text)
		}()
		tethertest.Eventually(t, func() error {
			if lines, _, _ := f.lines.Waiting(); lines > 0 {
				return fmt.Errorf("%d lines wait", lines)
			}
			return nil
		})
		log.WarnContext(context.Background(), "the last line")
		f.close()
		w.Close()
		text := <-read
		gap := regexp.MustCompile(`level=ERROR msg="lines of the log are missing: they were not read fast enough" count=(\d+)\n`)
		if format == formatJSON {
			gap = regexp.MustCompile(`"level":"ERROR","msg":"lines of the log are missing: they were not read fast enough","count":(\d+)}\n`)
		}
		missing := 0
		for _, found := range gap.FindAllStringSubmatch(text, -1) {
			n, _ := strconv.Atoi(found[1]) // digits
			missing += n
		}
		if missing != int(dropped) || strings.Count(text, "a line")+missing != 3*maxLogLines || !strings.Contains(text, "the last line") {
			t.Errorf("%s: %d lines, %d dropped, %d reported; the end is %s", format, strings.Count(text, "a line"), dropped, missing, text[max(0, len(text)-500):])
		}
	}
}

// BenchmarkLogLine is what a line about a start costs the request.
func BenchmarkLogLine(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	f := logFlags{level: choice{value: "info"}, format: choice{value: formatJSON}}
	log := f.open(null)
	defer f.close()
	b.ReportAllocs()
	for b.Loop() {
		log.LogAttrs(b.Context(), slog.LevelInfo, "command started", slog.String("session", "0123456789ab"), slog.String("process", "process-1"),
			slog.String("command", "/usr/bin/make"), slog.Int64("durationMs", 2), slog.String("sandbox", "none"))
	}
}
