package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
)

// commandGrace is how long a transport command may take to end by itself.
const commandGrace = 2 * time.Second

// maxStderrLine is how much of a line that a transport command writes to its standard
// error is logged.
const maxStderrLine = 4 << 10

// errSpawn is a transport command that could not be started.
var errSpawn = errors.New("failed to spawn exec-server")

// A TransportCommand speaks the protocol on its standard input and output, one
// message per line: "ssh host tether bridge", or "codex exec-server --listen stdio".
type TransportCommand struct {
	Argv []string
	Dir  string   // empty: the present one
	Env  []string // added to the present environment, as NAME=VALUE

	// Stderr gets what the command writes to its standard error; nil: the log.
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

func (d *commandTransport) String() string { return fmt.Sprintf("stdio command `%s`", d.cmd.Argv[0]) }

// local is false: to start a command again is not cheap.
func (d *commandTransport) local() bool { return false }

func (d *commandTransport) dial(context.Context) (rpc.Stream, error) {
	cmd := exec.Command(d.cmd.Argv[0], d.cmd.Argv[1:]...)
	cmd.Dir = d.cmd.Dir
	cmd.Env = append(os.Environ(), d.cmd.Env...)
	cmd.SysProcAttr = ownGroup()
	cmd.WaitDelay = commandGrace // for who holds standard error open
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSpawn, err)
	}
	// Not StdoutPipe: Wait would take away what was not read yet.
	stdout, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSpawn, err)
	}
	cmd.Stdout = theirs
	cmd.Stderr = d.cmd.Stderr
	if cmd.Stderr == nil {
		cmd.Stderr = &lineLog{log: d.log}
	}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		stdout.Close()
		return nil, fmt.Errorf("%w: %w", errSpawn, err)
	}
	s := &commandStream{Lines: rpc.NewLines(stdout, stdin), process: cmd.Process, ended: make(chan struct{})}
	s.waiter.Go(func() {
		if err := cmd.Wait(); err != nil {
			s.failure = fmt.Errorf("`%s` has ended: %w", d.cmd.Argv[0], err)
		}
		killGroup(cmd.Process) // so that standard output ends
		close(s.ended)
	})
	return &namedStream{s, "exec-server stdio command"}, nil
}

// A lineLog writes lines to a log.
type lineLog struct {
	log  *slog.Logger
	line []byte
}

func (l *lineLog) Write(b []byte) (int, error) {
	for _, c := range b {
		switch {
		case c == '\n':
			l.log.Info("exec-server stdio command", "line", string(l.line))
			l.line = l.line[:0]
		case len(l.line) < maxStderrLine:
			l.line = append(l.line, c)
		}
	}
	return len(b), nil
}

// A commandStream is the standard input and output of a command that ends with it.
type commandStream struct {
	*rpc.Lines
	process *os.Process
	waiter  sync.WaitGroup
	ended   chan struct{}
	failure error // why it has ended, once it has; nil: all was well
	once    sync.Once
}

// Read tells how the command has ended, if not well: nothing else says why a login failed.
func (s *commandStream) Read() ([]byte, error) {
	data, err := s.Lines.Read()
	if errors.Is(err, io.EOF) {
		select {
		case <-s.ended:
			if s.failure != nil {
				err = s.failure
			}
		case <-time.After(commandGrace): // it has only closed its output
		}
	}
	return data, err
}

// Close ends the command: it is asked to, and killed with all its group if it does not.
func (s *commandStream) Close() error {
	s.once.Do(func() {
		s.Lines.Close()
		select {
		case <-s.ended: // by itself; its number may be somebody else's by now
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
