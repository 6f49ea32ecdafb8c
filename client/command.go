package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
)

// commandGrace is how long a transport command may take to end by itself.
const commandGrace = 2 * time.Second

// maxStderrLine is how many bytes of each line on the standard error of a transport command
// are logged.
const maxStderrLine = 4 << 10

// errSpawn is a transport command that could not be started.
var errSpawn = errors.New("cannot be started")

// A TransportCommand speaks the protocol on its standard input and output, one
// message per line: "ssh host tether bridge", or "codex exec-server --listen stdio".
type TransportCommand struct {
	Name string // of the server, for errors; empty: Argv[0]
	Argv []string
	Dir  string   // empty: the present directory
	Env  []string // added to the present environment, as NAME=VALUE

	// SkipText skips what the command prints before the first message: the text of a login shell.
	SkipText bool

	// Refusal is an exit code with which the command says that it cannot succeed later either: with Options.Wait it is not
	// started again. Zero: there is none.
	Refusal int

	// Stderr gets the standard error of the command; nil: the log gets it.
	Stderr io.Writer
}

type commandTransport struct {
	cmd TransportCommand
	log *slog.Logger
}

func commandDialer(cmd TransportCommand, o Options) (dialer, error) {
	if len(cmd.Argv) == 0 {
		return nil, errors.New("no transport command")
	}
	return &commandTransport{cmd, o.withDefaults().Log}, nil
}

func (d *commandTransport) String() string {
	return cmp.Or(d.cmd.Name, "`"+d.cmd.Argv[0]+"`")
}

// local is false, because starting a command again is expensive.
func (d *commandTransport) local() bool { return false }

func (d *commandTransport) dial(context.Context) (rpc.Stream, error) {
	cmd := exec.Command(d.cmd.Argv[0], d.cmd.Argv[1:]...)
	cmd.Dir = d.cmd.Dir
	cmd.Env = append(os.Environ(), d.cmd.Env...)
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = commandGrace // if a child of the command keeps standard error open
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, d.failed(err)
	}
	// Not StdoutPipe: Wait would discard bytes that were not read yet.
	stdout, writeEnd, err := os.Pipe()
	if err != nil {
		return nil, d.failed(err)
	}
	cmd.Stdout = writeEnd
	stderr := &lineLog{log: d.log, to: d.cmd.Stderr}
	cmd.Stderr = stderr
	err = cmd.Start()
	writeEnd.Close()
	if err != nil {
		stdout.Close()
		return nil, d.failed(err)
	}
	s := &commandStream{process: cmd.Process, ended: make(chan struct{})}
	s.Lines = rpc.NewLines(stdout, commandInput{stdin, s})
	if d.cmd.SkipText {
		s.SkipForeignText()
	}
	s.waiter.Go(func() {
		if err := cmd.Wait(); err != nil {
			refusal := d.cmd.Refusal != 0 && cmd.ProcessState.ExitCode() == d.cmd.Refusal
			s.failure = &CommandError{d.cmd.Argv[0], err, stderr.last(), refusal}
		}
		killGroup(cmd.Process) // so that standard output ends
		close(s.ended)
	})
	return unlimitedStream{s}, nil
}

// failed is the error of a command that could not be started.
func (d *commandTransport) failed(err error) error {
	if e, ok := errors.AsType[*exec.Error](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return &CommandError{Name: d.cmd.Argv[0], Err: fmt.Errorf("%w: %w", errSpawn, err)}
}

// A lineLog passes the standard error of a transport command to a writer or, without one,
// to the log, line by line. It remembers the last line, which mostly is the reason why the
// command has ended.
type lineLog struct {
	log *slog.Logger
	to  io.Writer // may be nil

	mu     sync.Mutex
	line   []byte // the line that is not complete yet
	newest string // the last line that was not empty
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range b {
		switch {
		case c == '\n':
			l.end()
		case len(l.line) < maxStderrLine:
			l.line = append(l.line, c)
		}
	}
	if l.to != nil {
		return l.to.Write(b)
	}
	return len(b), nil
}

// end ends a line. The caller has l.mu.
func (l *lineLog) end() {
	if l.to == nil {
		l.log.Info("transport command", "line", string(l.line))
	}
	if text := strings.TrimSpace(strings.ToValidUTF8(string(l.line), "")); text != "" {
		l.newest = text
	}
	l.line = l.line[:0]
}

// last returns the last line that was not empty.
func (l *lineLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) > 0 {
		l.end()
	}
	return l.newest
}

// A commandStream is the standard input and output of a command that ends with it.
type commandStream struct {
	*rpc.Lines
	process *os.Process
	waiter  sync.WaitGroup
	ended   chan struct{}
	failure error // set before ended is closed; nil: the command has not failed
	once    sync.Once
}

// Read returns the failure of the command instead of io.EOF, if it has failed: only that says
// why a login failed, for example.
func (s *commandStream) Read() ([]byte, error) {
	data, err := s.Lines.Read()
	if errors.Is(err, io.EOF) {
		err = s.failureOr(err)
	}
	return data, err
}

// failureOr returns the failure of the command, if it has failed, instead of an error of its pipes.
func (s *commandStream) failureOr(err error) error {
	select {
	case <-s.ended:
		if s.failure != nil {
			return s.failure
		}
	case <-time.After(commandGrace): // the command has only closed a pipe
	}
	return err
}

// A commandInput is the standard input of the command.
type commandInput struct {
	io.WriteCloser
	stream *commandStream
}

// Write drops input for a command that has ended without a failure: the reader reports the end,
// and before it what the command printed last, which may say why.
func (in commandInput) Write(b []byte) (int, error) {
	n, err := in.WriteCloser.Write(b)
	if err == nil {
		return n, nil
	}
	if err = in.stream.failureOr(err); in.stream.endedWell() {
		return len(b), nil
	}
	return n, err
}

// endedWell reports whether the command has ended without a failure.
func (s *commandStream) endedWell() bool {
	select {
	case <-s.ended:
		return s.failure == nil
	default:
		return false
	}
}

// Close ends the command: its process group gets SIGTERM, and SIGKILL if it does not end in
// time.
func (s *commandStream) Close() error {
	s.once.Do(func() {
		s.Lines.Close()
		select {
		case <-s.ended: // by itself; another process may have its process id by now
		default:
			endGroup(s.process)
		}
		select {
		case <-s.ended:
		case <-time.After(commandGrace):
			killGroup(s.process)
		}
		s.waiter.Wait()
	})
	return nil
}
