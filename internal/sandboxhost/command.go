package sandboxhost

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/netpolicy"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/denial"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

// A Command runs in a sandbox, on the standard streams of this program.
type Command struct {
	Argv   []string
	Dir    string
	Intent *wire.Sandbox
	Rules  *netpolicy.Rules // the hosts that it may reach; nil: the network is as in the intent

	Stdin, Stdout *os.File
	Stderr        io.Writer
}

// A Result is the result of a command.
type Result struct {
	Code   int
	Output error            // our output cannot be written any more, and not because its reader has gone
	Denied bool             // the sandbox may be the reason for the failure
	Denial *wire.DenialFact // the known facts about that; may be nil
}

// Run runs a command from start to end and passes signals on to it. The context bounds the start.
func (h *Host) Run(ctx context.Context, c Command, signals <-chan os.Signal) (Result, error) {
	tty := terminal.Is(c.Stdin) && terminal.Is(c.Stdout) && terminal.Is(c.Stderr)
	request := confine.Request{Intent: c.Intent, Spec: proc.Spec{Argv: c.Argv, Dir: c.Dir, Env: os.Environ(),
		PipeStdin: true, TTY: tty, OneStream: terminal.SameFile(c.Stdout, c.Stderr)}}
	if tty {
		request.Spec.Rows, request.Spec.Cols = terminal.Size(c.Stdout)
	}
	if c.Rules != nil {
		status := terminal.NewStatusLine(c.Stderr, false)
		status.SetRaw(tty)
		defer status.Close()
		network, err := openNetwork(c.Rules, request.Spec.Env, NewRefusals(status))
		if err != nil {
			return Result{}, err
		}
		defer network.close()
		request.EnforceManagedNetwork, request.Gate, request.Spec.Env = true, network.gate, network.env
	}
	out := newCommandOutput(c.Stdout, c.Stderr)
	process, prepared, err := h.Confiner.Start(ctx, request, func(*confine.Prepared) proc.Sink { return out })
	if err != nil {
		return Result{}, err
	}
	c.stream(process, tty, out, signals)
	result := Result{Code: out.code, Output: out.err}
	if out.code != 0 && prepared.Plan.Shape != sandbox.ShapeOpen {
		result.Denied, result.Denial = out.denial(prepared.Policy)
	}
	return result, nil
}

// stream connects the process with our input and passes signals on until it has ended.
func (c *Command) stream(p *proc.Process, tty bool, out *commandOutput, signals <-chan os.Signal) {
	if tty {
		defer terminal.MakeRaw(c.Stdin)()
		// It fails only when there is no terminal any more.
		defer terminal.FollowSize(c.Stdout, func(rows, cols uint16) { p.Resize(rows, cols) })()
	}
	in := terminal.InterruptibleReader(c.Stdin)
	var feeding sync.WaitGroup
	feeding.Go(func() { feed(p, in) }) // ends with the input, or when it is closed
	defer feeding.Wait()
	defer in.Close()
	broken := out.broken
	for {
		select {
		case sig := <-signals:
			p.Signal(sig.(syscall.Signal)) // fails only if the process has ended
		case <-broken:
			// The command should notice it at its next write, which by default
			// ends it.
			p.Signal(syscall.SIGPIPE)
			p.Terminate()
			broken = nil
		case <-p.Done():
			return
		}
	}
}

// feed passes input on until it ends, or the process takes no more.
func feed(p *proc.Process, in io.Reader) {
	accepted := make(chan error, 1)
	buf := make([]byte, terminal.FeedSize)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			p.Write(bytes.Clone(buf[:n]), func(err error) { accepted <- err })
			if <-accepted != nil {
				return
			}
		}
		if err != nil {
			p.CloseStdin() // fails only if the process has closed it
			return
		}
	}
}

// A commandOutput passes output on, and keeps what a decision about a denial needs.
type commandOutput struct {
	stdout, stderr io.Writer
	code           int           // valid once the process is done
	broken         chan struct{} // closed when an output cannot be written any more
	breakOnce      sync.Once
	err            error // why, unless the reader has gone; valid once the process is done

	mu     sync.Mutex // two streams
	newest window
}

func newCommandOutput(stdout, stderr io.Writer) *commandOutput {
	return &commandOutput{stdout: stdout, stderr: stderr, broken: make(chan struct{})}
}

// Append implements proc.Sink. A reader that does not read blocks the command,
// as it would without tether in between.
func (o *commandOutput) Append(s outlog.Stream, data []byte) error {
	o.mu.Lock()
	o.newest.add(s, data)
	o.mu.Unlock()
	to := o.stdout
	if s == outlog.Stderr {
		to = o.stderr
	}
	_, err := to.Write(data)
	if err != nil {
		o.breakOnce.Do(func() {
			if !errors.Is(err, syscall.EPIPE) { // the command itself gets SIGPIPE
				o.err = terminal.OutputError(err)
			}
			close(o.broken)
		})
	}
	return err
}

// Exit implements proc.Sink.
func (o *commandOutput) Exit(code int) {
	if code < 0 { // the exit code is unknown
		code = 1
	}
	o.code = code
}

// Cut implements proc.Sink.
func (o *commandOutput) Cut() {}

// Close implements proc.Sink.
func (o *commandOutput) Close() {}

// denial reports whether the sandbox may be the reason for the failure of the command, and
// the known facts, which may be nil.
func (o *commandOutput) denial(policy *sandbox.Policy) (bool, *wire.DenialFact) {
	var judge denial.Judge
	var recent denial.Recent
	for _, c := range o.newest.chunks {
		judge.Add(c.stream, c.data)
		recent.Add(c.stream, c.data)
	}
	if !judge.Denied(o.code) {
		return false, nil
	}
	return true, denial.Explain(policy, o.code, &recent).Wire()
}

// A window keeps as much of the newest output as a denial.Judge looks at.
type window struct {
	chunks []windowChunk // oldest first
	size   int
}

type windowChunk struct {
	stream outlog.Stream
	data   []byte
}

func (w *window) add(s outlog.Stream, data []byte) {
	w.chunks = append(w.chunks, windowChunk{s, bytes.Clone(data)})
	w.size += len(data)
	for w.size > denial.WindowBytes || len(w.chunks) > denial.WindowEntries {
		w.size -= len(w.chunks[0].data)
		w.chunks[0] = windowChunk{}
		w.chunks = w.chunks[1:]
	}
}
