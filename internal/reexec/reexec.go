// Package reexec runs the helpers of tether: `tether be-child NAME …` is this
// program, started again to do one small thing, mostly inside a sandbox.
package reexec

import (
	"fmt"
	"os"

	"github.com/tetherexec/tether/internal/files/confined/helper"
	"github.com/tetherexec/tether/internal/sandbox/placeholder"
	"github.com/tetherexec/tether/internal/sandbox/probe"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// Command is the first argument of a helper.
const Command = "be-child"

// The names of the helpers.
const (
	Sandbox = "sandbox" // the last stage of a sandboxed start
	Probe   = "probe"   // tries something that a sandbox should stop
	Files   = "files"   // serves file requests inside a sandbox
	Sweeper = "sweeper" // removes placeholders that other users' sandboxes still need
)

// exitUnknown is the exit status for a name that no helper has.
const exitUnknown = 125

// Argv is the command line of a helper.
func Argv(self, name string, args ...string) []string {
	return append([]string{self, Command, name}, args...)
}

// init runs a helper if this program was started as one. Helpers start with every
// sandboxed command: here most packages have not been initialized yet, and a
// program that embeds tether needs to do nothing.
func init() {
	if len(os.Args) > 2 && os.Args[1] == Command {
		os.Exit(run(os.Args[2], os.Args[3:]))
	}
}

func run(name string, args []string) int {
	switch name {
	case Sandbox:
		return stage.Main(args)
	case Probe:
		return probe.Main(args)
	case Files:
		return helper.Main(args)
	case Sweeper:
		return placeholder.SweeperMain(args)
	}
	fmt.Fprintf(os.Stderr, "tether: no helper is called %q\n", name)
	return exitUnknown
}
