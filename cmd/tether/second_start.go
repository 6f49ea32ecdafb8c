package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/reexec"
)

// handOver replaces this process by a companion if a command line is for a command of which this program has only the name: to
// execute the command, to print its help, or to complete its flags. Otherwise it returns nil.
func handOver(args []string) error {
	words := args
	if len(words) > 0 && (words[0] == aboutHelp || completes(args)) {
		words = words[1:]
	}
	i := slices.IndexFunc(companionCommands, func(c companionCommand) bool { return len(words) > 0 && c.name == words[0] })
	switch {
	case !namesOnly:
		return nil
	case i < 0 && completes(args):
		return withMCP.become(aboutCompletion, args)
	case i < 0:
		return nil
	}
	c := companionCommands[i]
	err := c.in.become(c.name, args)
	if c.runs {
		err = failed(err)
	}
	return err
}

// completes reports whether a command line is the question of a shell that completes another one.
func completes(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// become replaces this process by the companion, which has a command. It gets the same arguments, so it checks them again.
func (c companion) become(command string, args []string) error {
	path, err := c.find(command)
	if err != nil {
		return err
	}
	args = slices.Concat([]string{prefixCompanion, versionText()}, args)
	if _, worker := reexec.WorkerArguments(os.Args); worker {
		args = slices.Concat(os.Args[1:3], args)
	}
	if err := become(path, args); err != nil {
		return fmt.Errorf("start %s: %w", path, cause(err))
	}
	return nil
}

// find looks for the companion in the directory of this program first, because the same version is there.
func (c companion) find(command string) (string, error) {
	name := c.program
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	self, err := os.Executable()
	if err == nil {
		path := filepath.Join(filepath.Dir(self), name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", errors.New("`tether " + command + "` needs the program " + c.program + ", which is neither in the directory of tether nor in PATH; `make build` makes it,\n" +
			"and `go install -tags " + c.tag + " github.com/tetherexec/tether/cmd/tether@VERSION` a tether that has the command inside")
	}
	return path, nil
}

// ownArguments removes the arguments that tether puts before its own when it starts a companion. It fails if the two programs have
// different versions, because both interpret the same flags.
func ownArguments(args []string) ([]string, error) {
	if len(args) < 2 || args[0] != prefixCompanion {
		return args, nil
	}
	if own := versionText(); args[1] != own {
		self, _ := os.Executable() // "" in the message, if that fails
		return nil, failed(fmt.Errorf("%s has version %s, and the tether that has started it %s; install both from the same release", filepath.Base(self), own, args[1]))
	}
	return args[2:], nil
}
