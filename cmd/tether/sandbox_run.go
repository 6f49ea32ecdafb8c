package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/confine"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/denial"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/internal/wording"
	"github.com/tetherexec/tether/wire"
)

// A sandboxRun is one command in a sandbox, on our own standard streams.
type sandboxRun struct {
	sandboxFlags
	explainDenial bool

	argv          []string
	stdin, stdout *os.File
	stderr        io.Writer
	tty           bool
}

func newSandboxRun(stdin, stdout *os.File) *cobra.Command {
	run := sandboxRun{stdin: stdin, stdout: stdout}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command in a sandbox",
		Long: "Run a command on this machine as a server would run it for a client: in a sandbox that lets\n" +
			"it do what the profile says and nothing else.\n\n" +
			"The exit code is that of the command, 128+N if signal N ended it. Without a command: 125 if\n" +
			"the sandbox cannot be had, 126 if the command cannot be executed, 127 if it is not found.",
		Example: "  tether sandbox run -- make test\n" +
			"  tether sandbox run --profile read-only -- bash\n" +
			"  tether sandbox run --network --writable ~/.cache -- npm install\n" +
			"  tether sandbox run --allow-host '*.example.com:443' -- make deps",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("a command to run is missing")}
			}
			return nil
		},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			run.argv, run.stderr = args, cmd.ErrOrStderr()
			return run.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false) // what follows the command is the command's
	run.define(fs)
	defineExplainDenial(fs, &run.explainDenial)
	onlyOnce(fs)
	return cmd
}

func (r *sandboxRun) run(ctx context.Context) (err error) {
	cwd, err := r.workspace()
	if err != nil {
		return codedError{exitRefused, err}
	}
	intent, err := r.intent(cwd)
	if _, usage := errors.AsType[usageError](err); err != nil && !usage {
		err = codedError{exitRefused, err}
	}
	if err != nil {
		return err
	}
	rules, err := r.hosts.rules(r.network)
	if err != nil {
		return err
	}
	if err := proc.ResetInherited(); err != nil {
		return codedError{exitRefused, fmt.Errorf("prepare for children: %w", err)}
	}
	w, err := openWorkshop(r.stateDir, r.sockets)
	if err != nil {
		return codedError{exitRefused, err}
	}
	defer func() {
		if cerr := w.close(); cerr != nil && err == nil {
			err = codedError{exitRefused, cerr}
		}
	}()
	r.tty = terminal.Is(r.stdin) && terminal.Is(r.stdout) && terminal.Is(r.stderr)
	spec := proc.Spec{Argv: r.argv, Dir: cwd, Env: os.Environ(), PipeStdin: true, TTY: r.tty,
		OneStream: terminal.SameFile(r.stdout, r.stderr)}
	if r.tty {
		spec.Rows, spec.Cols = terminal.Size(r.stdout)
	}
	request := confine.Request{Intent: intent, Spec: spec}
	if rules != nil {
		status := terminal.NewStatusLine(r.stderr, false)
		status.SetRaw(r.tty)
		defer status.Close()
		network, err := openLocalNetwork(rules, spec.Env, newRefusals(status))
		if err != nil {
			return codedError{exitRefused, err}
		}
		defer network.close()
		request.EnforceManagedNetwork, request.Gate, request.Spec.Env = true, network.gate, network.env
	}
	return r.command(ctx, w, request)
}

// command runs the command from start to end.
func (r *sandboxRun) command(ctx context.Context, w *workshop, request confine.Request) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, terminal.EndingSignals...)
	defer signal.Stop(signals)
	defer brokenPipeIsError()() // the command is told, see attend
	starting, stop := untilSignal(ctx)
	defer stop()

	out := newRunOutput(r.stdout, r.stderr)
	process, prepared, err := w.confiner.Start(starting, request, func(*confine.Prepared) proc.Sink { return out })
	if err != nil {
		return orSignal(starting, startFailure(err))
	}
	r.attend(process, out, signals)
	if out.err != nil {
		return codedError{exitRefused, out.err}
	}
	if out.code != 0 && prepared.Plan.Shape != sandbox.ShapeOpen && (r.explainDenial || terminal.Is(r.stderr)) {
		if denied, fact := out.denial(prepared.Policy, request.Spec.Dir); denied {
			fmt.Fprintln(r.stderr, denialText(fact, request.EnforceManagedNetwork))
		}
	}
	if out.code != 0 {
		return codedError{code: out.code}
	}
	return nil
}

// startFailure gives the reason why there was no command its exit code.
func startFailure(err error) error {
	start, ok := errors.AsType[*proc.StartError](err)
	if !ok {
		return codedError{exitRefused, wording.Error(err)}
	}
	number, _ := errors.AsType[syscall.Errno](start.Err)
	return notStarted(number, wording.Error(err))
}

// attend connects the process to our input and passes signals on until it has
// ended.
func (r *sandboxRun) attend(p *proc.Process, out *runOutput, signals <-chan os.Signal) {
	if r.tty {
		defer terminal.MakeRaw(r.stdin)()
		// It fails only when there is no terminal any more.
		defer terminal.FollowSize(r.stdout, func(rows, cols uint16) { p.Resize(rows, cols) })()
	}
	in := terminal.InterruptibleReader(r.stdin)
	var feeding sync.WaitGroup
	feeding.Go(func() { feed(p, in) }) // ends with the input, or when it is closed
	defer feeding.Wait()
	defer in.Close()
	broken := out.broken
	for {
		select {
		case sig := <-signals:
			p.Signal(sig.(syscall.Signal)) // fails only if nobody is left to signal
		case <-broken:
			// The command should learn it by its next write, and by default die.
			p.Signal(syscall.SIGPIPE)
			p.Terminate()
			broken = nil
		case <-p.Done():
			return
		}
	}
}

// feed passes input on until there is no more, or nobody wants it.
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
			p.CloseStdin() // fails only if nobody reads it
			return
		}
	}
}

// A runOutput passes output on, and remembers what is needed to judge a failure.
type runOutput struct {
	stdout, stderr io.Writer
	code           int           // valid once the process is done
	broken         chan struct{} // closed when an output cannot be written any more
	breakOnce      sync.Once
	err            error // why, unless the reader has gone; valid once the process is done

	mu     sync.Mutex // two streams
	newest window
}

func newRunOutput(stdout, stderr io.Writer) *runOutput {
	return &runOutput{stdout: stdout, stderr: stderr, broken: make(chan struct{})}
}

// Append implements proc.Sink. A reader that does not read stops the command, as
// without us in between.
func (o *runOutput) Append(s outlog.Stream, data []byte) error {
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
			if !errors.Is(err, syscall.EPIPE) { // that is the command's matter
				o.err = terminal.OutputError(err)
			}
			close(o.broken)
		})
	}
	return err
}

// Exit implements proc.Sink.
func (o *runOutput) Exit(code int) {
	if code < 0 { // the system does not say
		code = exitError
	}
	o.code = code
}

// Cut implements proc.Sink.
func (o *runOutput) Cut() {}

// Close implements proc.Sink.
func (o *runOutput) Close() {}

// denial reports whether the sandbox may be the reason for the failure of the command, and
// what is known about it, which may be nil.
func (o *runOutput) denial(policy *sandbox.Policy, cwd string) (bool, *wire.DenialFact) {
	var judge denial.Judge
	var recent denial.Recent
	for _, c := range o.newest.chunks {
		judge.Add(c.stream, c.data)
		recent.Add(c.stream, c.data)
	}
	if !judge.Denied(o.code) {
		return false, nil
	}
	return true, denial.Explain(policy, cwd, o.code, &recent).Wire()
}

// A window is the newest output, as much as a failure is judged by.
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
