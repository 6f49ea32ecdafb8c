// Package reexec starts this program again as one of its helpers: `tether be-child NAME …`
// does one small task, usually inside a sandbox.
//
// It knows the names of the helpers and how they are started, not what they do: the package of a helper
// registers it. A program that embeds tether needs to do nothing, because the helpers run before its main
// function, and before most packages are initialized. encode.go has Encoder and Decoder, for the messages
// between this program and a helper.
package reexec

import (
	"fmt"
	"os"
	"runtime"
	"slices"
)

// Command is the first argument of a helper.
const Command = "be-child"

// The names of the helpers.
const (
	Sandbox = "sandbox" // the last stage of a sandboxed start: package sandbox/stage
	Trial   = "trial"   // does nothing, to find out whether a sandbox can be built: package confine
	Probe   = "probe"   // tries something that a sandbox should prevent: package sandbox/probe
	Files   = "files"   // serves file requests inside a sandbox: package files/confined/helper
	Keeper  = "keeper"  // holds what must outlive a server: package keep
	Worker  = "worker"  // the server below a keeper: the program itself, with its own arguments behind the name
	Left    = "left"    // ends the commands that a durable server has left: package statedir
	Sweeper = "sweeper" // removes placeholders that other users' sandboxes still need: package sandbox/placeholder
)

// exitUnknown is the exit status if no helper has the name.
const exitUnknown = 125

// Argv is the command line of a helper.
func Argv(self, name string, args ...string) []string {
	return append([]string{self, Command, name}, args...)
}

// Register sets the main function of a helper, which returns the exit status. If this program
// was started as that helper, Register runs it and does not return. Call it in an init function:
// a helper starts with every sandboxed command, so it should not wait for the initialization of
// packages that it does not use.
func Register(name string, main func(args []string) int) {
	if started() && os.Args[2] == name {
		os.Exit(main(os.Args[3:]))
	}
}

func started() bool { return len(os.Args) > 2 && os.Args[1] == Command }

func init() {
	if started() && !exists(os.Args[2], runtime.GOOS) {
		fmt.Fprintf(os.Stderr, "tether: there is no helper %q on this system\n", os.Args[2])
		os.Exit(exitUnknown)
	}
}

// exists reports whether a system has the helper. All helpers belong to the sandbox or to the keeper, which only
// Linux has.
func exists(name, system string) bool {
	return system == "linux" && slices.Contains([]string{Sandbox, Trial, Probe, Files, Sweeper, Keeper, Worker, Left}, name)
}

// WorkerArguments returns the arguments of a program that was started as a worker, and whether it was.
func WorkerArguments(args []string) (own []string, worker bool) {
	if len(args) > 2 && args[1] == Command && args[2] == Worker {
		return args[3:], true
	}
	return nil, false
}
