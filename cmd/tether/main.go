// Command tether runs commands and touches files on this machine for a program
// on another one.
package main

import (
	"io"
	"os"
)

// Exit codes, the same for every subcommand.
const (
	exitOK    = 0
	exitError = 1 // the command could not do its work
	exitUsage = 2 // the command line was not understood
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes a command line and returns the exit code.
func run(args []string, stdin, stdout *os.File, stderr io.Writer) int {
	args, err := ownArguments(args)
	if err != nil {
		return report(stderr, "tether", err)
	}
	root := newRoot(args, stdin, stdout, stderr)
	command, err := root.ExecuteC()
	return report(stderr, command.CommandPath(), err)
}
