//go:build amd64 || arm64

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/wake"
)

// arenaLog returns a log that takes output from pipes itself.
func arenaLog(t *testing.T, c outlog.Config) *outlog.Log {
	t.Helper()
	a, err := arena.Create(arena.Config{Slots: 4, Blocks: 64, Journal: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if c.Slot, err = a.TakeSlot(); err != nil {
		t.Fatal(err)
	}
	l := outlog.New(outlog.NewPool(t.TempDir(), 1<<30), c)
	t.Cleanup(func() {
		l.End()
		if _, used := a.FreeMemory(); used != 0 {
			t.Errorf("%d blocks are still in use", used)
		}
		a.Close()
	})
	return l
}

// readAll reads a log to its end and reports everything as sent.
func readAll(t *testing.T, l *outlog.Log) (output map[outlog.Stream]*bytes.Buffer, code int) {
	t.Helper()
	output = map[outlog.Stream]*bytes.Buffer{outlog.Stdout: {}, outlog.Stderr: {}, outlog.PTY: {}}
	more := wake.New()
	defer l.OnAppend(func(bool) { more.Send() })()
	for c := l.Cursor(0); ; l.Sent(c.Seq()) {
		err := c.Next(func(e outlog.Entry) {
			switch e.Kind {
			case outlog.Output:
				output[e.Stream].Write(e.Data)
			case outlog.Exited:
				code = e.ExitCode
			}
		})
		switch {
		case errors.Is(err, outlog.ErrNone):
			<-more
		case errors.Is(err, io.EOF):
			return output, code
		case err != nil:
			t.Fatal(err)
		}
	}
}

func numbers(n int, end string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d%s", i+1, end)
	}
	return b.String()
}

// Output arrives in a log in an arena as in any other: from pipes, from one pipe for both streams, and
// from a terminal.
func TestLogInArenaTakesOutput(t *testing.T) {
	t.Parallel()
	s := New(Config{NoCgroups: true})
	defer s.Close()
	const n = 100000
	script := []string{"sh", "-c", fmt.Sprintf("seq 1 %d; seq 1 10 >&2; exit 3", n)}
	for _, test := range []struct {
		spec                Spec
		stdout, stderr, pty string
	}{
		{Spec{}, numbers(n, "\n"), numbers(10, "\n"), ""},
		{Spec{OneStream: true}, numbers(n, "\n") + numbers(10, "\n"), "", ""},
		{Spec{TTY: true}, "", "", numbers(n, "\r\n") + numbers(10, "\r\n")},
	} {
		spec := test.spec
		spec.Argv, spec.Dir = script, "/"
		log := arenaLog(t, outlog.Config{})
		p, err := s.Start(t.Context(), spec, log)
		if err != nil {
			t.Fatal(err)
		}
		output, code := readAll(t, log)
		if code != 3 || output[outlog.Stdout].String() != test.stdout || output[outlog.Stderr].String() != test.stderr ||
			output[outlog.PTY].String() != test.pty {
			t.Errorf("%+v: exit code %d, %d, %d and %d bytes", spec, code, output[outlog.Stdout].Len(), output[outlog.Stderr].Len(), output[outlog.PTY].Len())
		}
		<-p.Done()
	}
}

// An endLog tells when a stream has ended.
type endLog struct {
	*outlog.Log
	ended chan outlog.Stream
}

func (l *endLog) EndStream(s outlog.Stream) { l.ended <- s }

// While a log is full, output stays in the pipe. The end of the other stream is noticed.
func TestFullLogInArena(t *testing.T) {
	t.Parallel()
	s := New(Config{NoCgroups: true})
	defer s.Close()
	const total = 600000
	log := &endLog{arenaLog(t, outlog.Config{Limit: 100 << 10}), make(chan outlog.Stream, 2)}
	blocked := make(chan struct{})
	p, err := s.Start(t.Context(), Spec{Dir: "/", PipeStdin: true, Argv: []string{"sh", "-c",
		fmt.Sprintf("head -c %d /dev/zero 2>/dev/null & read line; exec 2>&-; wait", total)}}, log)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends when the log is full, or the test fails
		defer close(blocked)
		for !log.Stats().Blocked && t.Context().Err() == nil {
			log.Stats()
		}
	}()
	<-blocked
	p.Write([]byte("\n"), func(error) {})
	if ended := <-log.ended; ended != outlog.Stderr || !log.Stats().Blocked {
		t.Errorf("stream %v ended, the log: %+v", ended, log.Stats())
	}
	output, code := readAll(t, log.Log)
	if code != 0 || output[outlog.Stdout].Len() != total {
		t.Errorf("exit code %d, %d bytes", code, output[outlog.Stdout].Len())
	}
	<-p.Done()
}

// A process whose log is full can be terminated.
func TestTerminateWithFullLogInArena(t *testing.T) {
	t.Parallel()
	s := New(Config{NoCgroups: true})
	defer s.Close()
	for _, tty := range []bool{false, true} {
		log := arenaLog(t, outlog.Config{Limit: 100 << 10})
		p, err := s.Start(t.Context(), Spec{Dir: "/", TTY: tty, Argv: []string{"yes"}}, log)
		if err != nil {
			t.Fatal(err)
		}
		for !log.Stats().Blocked {
			select {
			case <-p.Done():
				t.Fatal("yes has ended")
			default:
			}
		}
		p.Terminate()
		<-p.Done()
		if s := log.State(); !s.Exited || !s.Closed {
			t.Errorf("terminal %v: %+v", tty, s)
		}
	}
}
