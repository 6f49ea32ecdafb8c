package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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

// printLine prints a line for the user on standard error. Each line of the text gets the prefix.
func printLine(stderr io.Writer, text string) {
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
	printLine(stderr, err.Error())
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
		Short: "Run commands and use files on another machine",
		Long: "tether runs commands and uses files on another machine, or on this one in a sandbox, for a person\n" +
			"or an agent. When a connection breaks, commands run on, and no output is lost. `tether serve` is the\n" +
			"server: it speaks the exec-server protocol of the Codex CLI.",
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
	root.CompletionOptions.DisableDefaultCmd = true // newCompletion replaces it
	root.SuggestionsMinimumDistance = 2
	addCommands(root, args, stdin, stdout)
	if completes(args) {
		allowRepeats(root)
	}
	root.Flags().BoolVar(&showVersion, "version", false, "print the version")
	return root
}

// A commandGroup is a heading in the help, with its commands.
type commandGroup struct {
	heading  string
	commands []lazyCommand
}

// A lazyCommand makes a command when it is needed. All commands together have hundreds of flags, and each start of the program
// executes only one command.
type lazyCommand struct {
	name string
	make func() *cobra.Command
}

// addCommands adds the command that the first argument names. It adds all commands if the argument names none, or names one
// that needs the others (help, completion).
func addCommands(root *cobra.Command, args []string, stdin, stdout *os.File) {
	serve := func(name, short string) lazyCommand {
		return lazyCommand{name, func() *cobra.Command { return newServe(name, short, args, stdin, stdout) }}
	}
	groups := []commandGroup{
		{"Run commands", []lazyCommand{
			{"run", func() *cobra.Command { return newRun(stdin, stdout) }},
			{"shell", func() *cobra.Command { return newShell(stdin, stdout) }},
		}},
		{"Processes and sessions", []lazyCommand{
			{namePs, func() *cobra.Command { return newPs(stdout) }},
			{nameLogs, func() *cobra.Command { return newLogs(stdout) }},
			{nameAttach, func() *cobra.Command { return newAttach(stdin, stdout) }},
			{nameConsole, newConsole},
			{nameWhy, newWhy}, {nameWait, newWait}, {nameKill, newKill}, {nameRm, newRm}, {nameSessions, newSessions},
			{nameRecord, newRecord},
			{namePlay, func() *cobra.Command { return newPlay(stdout) }},
		}},
		{"Files and ports", []lazyCommand{
			{nameCp, newCp},
			{nameFs, func() *cobra.Command { return newFs(stdin) }},
			{nameForward, newForward}, {namePorts, newPorts},
		}},
		{"Agents", []lazyCommand{
			{nameMCP, func() *cobra.Command { return newMCP(args, stdin, stdout) }},
			{nameMCPRun, func() *cobra.Command { return newMCPRun(stdin, stdout) }},
		}},
		{"Serve", []lazyCommand{
			serve("serve", "Serve clients on this machine"),
			serve("exec-server", "The same as serve, under the name that the Codex CLI uses"),
			{nameAppServer, func() *cobra.Command { return newAppServer(args, stdin, stdout) }},
			{"bridge", func() *cobra.Command { return newBridge(stdin, stdout) }},
			{nameUpgrade, newUpgrade}, {nameReload, newReload}, {nameUpgradeHost, newUpgradeHost}, {nameToken, newToken},
			{nameService, func() *cobra.Command { return newService(stdout) }},
		}},
		{"Fleet", []lazyCommand{
			{nameHub, func() *cobra.Command { return newHub(args, stdout) }},
			{nameGateway, func() *cobra.Command { return newGateway(args, stdout) }},
			{nameHosts, func() *cobra.Command { return newHosts(args, stdout) }},
		}},
		{"Sandbox and faults", []lazyCommand{
			{nameSandbox, func() *cobra.Command { return newSandbox(stdin, stdout) }},
			{nameDoctor, newDoctor},
			{nameChaos, func() *cobra.Command { return newChaos(args, stdout) }},
		}},
		{"About tether", []lazyCommand{
			{aboutCompletion, newCompletion},
			{"version", newVersion}, {nameSchema, newSchema},
			{aboutHelp, func() *cobra.Command { return newHelp(root) }},
		}},
	}
	only := ""
	for _, g := range groups {
		if len(args) > 0 && slices.ContainsFunc(g.commands, func(c lazyCommand) bool { return c.name == args[0] }) &&
			args[0] != aboutCompletion && args[0] != aboutHelp {
			only = args[0]
		}
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.heading, Title: g.heading})
		for _, c := range g.commands {
			if only == "" || c.name == only {
				cmd := c.make()
				cmd.GroupID = g.heading
				root.AddCommand(cmd)
			}
		}
	}
}

// aboutHelp is a command that needs all other commands, as aboutCompletion.
const aboutHelp = "help"

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
