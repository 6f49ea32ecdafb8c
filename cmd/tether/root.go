package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// A usageError is a command line that was not understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// A codedError ends the program with a code of its own; without a cause nothing
// is printed.
type codedError struct {
	code  int
	cause error // may be nil
}

func (e codedError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.cause.Error()
}

func (e codedError) Unwrap() error { return e.cause }

// prefix begins each line that tether itself writes to standard error.
const prefix = "tether: "

// complain prints an error.
func complain(stderr io.Writer, text string) {
	fmt.Fprintf(stderr, "%s%s\n", prefix, strings.ReplaceAll(text, "\n", "\n"+prefix))
}

// report prints the error, if any, and returns the exit code for it.
func report(stderr io.Writer, command string, err error) int {
	if err == nil {
		return exitOK
	}
	_, usage := errors.AsType[usageError](err)
	code := exitError
	if usage {
		code = exitUsage
	}
	if e, ok := errors.AsType[codedError](err); ok {
		if code = e.code; e.cause == nil {
			return code
		}
	}
	complain(stderr, err.Error())
	if usage {
		fmt.Fprintf(stderr, "\nFor more information, try '%s --help'.\n", command)
	}
	return code
}

func init() { cobra.EnableCommandSorting = false } // the help lists commands as they were added

func newRoot(args []string, stdin, stdout *os.File, stderr io.Writer) *cobra.Command {
	showVersion := false
	root := &cobra.Command{
		Use:   "tether",
		Short: "Run commands and touch files on another machine",
		Long: "tether runs commands and uses files on another machine, or on this one in a sandbox, for a person\n" +
			"or an agent, and loses none of their output when a connection breaks. `tether serve` is the other\n" +
			"end: it speaks the exec-server protocol of the Codex CLI.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showVersion {
				return printVersion(cmd.OutOrStdout())
			}
			return cmd.Help()
		},
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.SetUsageFunc(printUsage)
	root.SetHelpFunc(printHelp)
	root.CompletionOptions.DisableDefaultCmd = true // ours has words of its own
	root.SuggestionsMinimumDistance = 2
	addGroup(root, "Run commands", newRun(stdin, stdout), newShell(stdin, stdout))
	addGroup(root, "See and steer what runs", newPs(stdout), newLogs(stdout), newAttach(stdin, stdout), newWhy(), newWait(), newKill(), newRm(), newSessions())
	addGroup(root, "Files", newCp(), newFs(stdin))
	addGroup(root, "Agents", newMCP(args, stdin, stdout), newMCPRun(stdin, stdout))
	addGroup(root, "Serve",
		newServe("serve", "Serve clients on this machine", args, stdin, stdout),
		newServe("exec-server", "The same, under the name that the Codex CLI gives it", args, stdin, stdout),
		newAppServer(args, stdin, stdout),
		newBridge(stdin, stdout),
		newToken())
	addGroup(root, "Sandbox and faults", newSandbox(stdin, stdout), newDoctor(), newChaos(stdout))
	addGroup(root, "About tether", newCompletion(), newVersion(), newHelp(root))
	root.Flags().BoolVar(&showVersion, "version", false, "print the version")
	return root
}

// addGroup adds commands that stand under a heading of their own in the help.
func addGroup(root *cobra.Command, heading string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading})
	for _, cmd := range commands {
		cmd.GroupID = heading
		root.AddCommand(cmd)
	}
}

// noSuchCommand refuses arguments that name no subcommand.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageError{errors.New(text)}
}

// noArguments refuses everything that is not a flag.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("unexpected argument %q", args[0])}
}
