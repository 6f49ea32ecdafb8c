// Command tether runs commands and touches files on this machine for a program
// on another one.
package main

import (
	"fmt"
	"io"
	"os"
)

// Exit codes, the same for every subcommand.
const (
	exitOK     = 0
	exitError  = 1   // the command could not do its work
	exitUsage  = 2   // the command line was not understood
	exitHelper = 125 // `be-child` was asked for a helper that does not exist
)

func main() {
	// Helpers run inside sandboxes and start often: they come before anything
	// that costs time.
	if len(os.Args) > 2 && os.Args[1] == "be-child" {
		os.Exit(beChild(os.Args[2]))
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// beChild runs the named helper in this process and returns its exit code.
func beChild(name string) int {
	switch name {
	default:
		fmt.Fprintf(os.Stderr, "Error: no helper is called %q\n", name)
		return exitHelper
	}
}

// run executes a command line and returns the exit code.
func run(args []string, stdin, stdout *os.File, stderr io.Writer) int {
	root := newRoot(args, stdin, stdout, stderr)
	command, err := root.ExecuteC()
	return report(stderr, command.CommandPath(), err)
}
