//go:build mcp || fleet || !split

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/proc"
	"github.com/tetherexec/tether/internal/sandboxhost"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/internal/wording"
)

func newSandbox(stdin, stdout *os.File) *cobra.Command {
	cmd := &cobra.Command{
		Use:   nameSandbox,
		Short: shortSandbox,
		Long:  "Use the sandbox of tether without a server, to try and to understand what a client can ask for.",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	cmd.AddCommand(newSandboxRun(stdin, stdout), newSandboxExplain())
	return cmd
}

// A sandboxRun is one command in a sandbox, on the standard streams of tether.
type sandboxRun struct {
	sandboxFlags
	explainDenial bool

	argv          []string
	stdin, stdout *os.File
	stderr        io.Writer
}

func newSandboxRun(stdin, stdout *os.File) *cobra.Command {
	run := sandboxRun{stdin: stdin, stdout: stdout}
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command in a sandbox",
		Long: "Run a command on this machine as a server would run it for a client: in a sandbox that allows\n" +
			"only what the profile says.\n\n" +
			"The exit code is that of the command, 128+N if signal N ended it. If the command did not run, it\n" +
			"is 125 if there can be no sandbox, 126 if the command cannot be executed, 127 if it is not found.",
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
	fs.SetInterspersed(false) // flags behind the command belong to it
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
	h, err := sandboxhost.Open(r.machine.options(r.stateDir))
	if err != nil {
		return codedError{exitRefused, withStateDirFlag(err)}
	}
	defer func() {
		if cerr := h.Close(); cerr != nil && err == nil {
			err = codedError{exitRefused, cerr}
		}
	}()
	return r.command(ctx, h, sandboxhost.Command{
		Argv: r.argv, Dir: cwd, Intent: intent, Rules: rules, Stdin: r.stdin, Stdout: r.stdout, Stderr: r.stderr,
	})
}

// command runs the command from start to end.
func (r *sandboxRun) command(ctx context.Context, h *sandboxhost.Host, c sandboxhost.Command) error {
	signals, ignore := terminal.CatchSignals()
	defer ignore()
	defer brokenPipeIsError()() // EPIPE ends the command with SIGPIPE
	starting, stop := untilSignal(ctx)
	defer stop()

	result, err := h.Run(starting, c, signals)
	switch {
	case err != nil:
		return orSignal(starting, startFailure(err))
	case result.Output != nil:
		return codedError{exitRefused, result.Output}
	case result.Denied && (r.explainDenial || terminal.Is(r.stderr)):
		fmt.Fprintln(r.stderr, denialText(result.Denial, c.Rules != nil))
	}
	return ofCommand(result.Code)
}

// startFailure gives the error of a command that did not start its exit code.
func startFailure(err error) error {
	start, ok := errors.AsType[*proc.StartError](err)
	if !ok {
		return codedError{exitRefused, wording.Error(err)}
	}
	number, _ := errors.AsType[syscall.Errno](start.Err)
	return notStarted(number, wording.Error(err))
}
