// Command tether runs commands and uses files on another machine, or on this one, and is
// also the server for that.
//
// This package has the flags, the help, the exit codes and the messages; the work is done
// by other packages. Where a change belongs: root.go lists the commands, and each command is in
// the file of its name (run.go, cp.go, mcp.go with mcp_inside.go and mcp_outside.go, …).
// connect.go, url.go and tls.go open the session of a client command, advice.go adds to errors
// what the user can do, exitcode.go and signals.go decide how the program ends. listenflags.go has
// the flags of the servers, reference.go those that only `codex exec-server` uses. resolve.go finds
// the process that a name means, table.go prints lists.
package main

import (
	"io"
	"os"
	"runtime"
	"slices"

	_ "github.com/tetherexec/tether/internal/keep" // registers the helper `keeper`
	"github.com/tetherexec/tether/internal/reexec"
)

// Exit codes, the same for every subcommand.
const (
	exitOK    = 0
	exitError = 1 // the command could not do its work
	exitUsage = 2 // the command line was not understood
)

// A keeper has to be on the main thread: that of main, until it is known that this process becomes none.
func init() { runtime.LockOSThread() }

func main() {
	args := os.Args[1:]
	if !slices.ContainsFunc([]string{"serve", "exec-server", "app-server"}, func(name string) bool { return slices.Contains(args, name) }) {
		runtime.UnlockOSThread()
	}
	if own, worker := reexec.WorkerArguments(os.Args); worker {
		args = own
	}
	os.Exit(run(args, os.Stdin, os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(args []string, stdin, stdout *os.File, stderr io.Writer) int {
	args, err := ownArguments(args)
	if err != nil {
		return report(stderr, "tether", err)
	}
	if len(args) == 1 && args[0] == consoleFilesCommand {
		return report(stderr, "tether", printConsoleFiles(stdout))
	}
	if len(args) == 2 && args[0] == packageFilesCommand {
		return report(stderr, "tether", printPackageFiles(stdout, args[1]))
	}
	if len(args) == 3 && args[0] == deployCommand {
		return report(stderr, "tether", deployFor(args[1:], stdout))
	}
	args = serverFirst(args)
	if err := handOver(args); err != nil {
		return report(stderr, "tether", err)
	}
	root := newRoot(args, stdin, stdout, stderr)
	command, err := execute(root, args)
	return report(stderr, command.CommandPath(), err)
}
