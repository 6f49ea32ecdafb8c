//go:build split && !mcp

package main

import (
	"os"

	"github.com/spf13/cobra"
)

func newCp() *cobra.Command                           { return newSecond(nameCp, shortCp) }
func newFs(*os.File) *cobra.Command                   { return newSecond(nameFs, shortFs) }
func newMCP(_ []string, _, _ *os.File) *cobra.Command { return newSecond(nameMCP, shortMCP) }
func newMCPRun(_, _ *os.File) *cobra.Command          { return newSecond(nameMCPRun, shortMCPRun) }
func newSandbox(_, _ *os.File) *cobra.Command         { return newSecond(nameSandbox, shortSandbox) }
func newDoctor() *cobra.Command                       { return newSecond(nameDoctor, shortDoctor) }
func newChaos([]string, *os.File) *cobra.Command      { return newSecond(nameChaos, shortChaos) }

// newSecond is a command of the second program in the list of commands. handOver executes it.
func newSecond(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short,
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return handOver(os.Args[1:]) },
	}
}

// handOver replaces this process by the second program if a command line is for a command of that program: to execute the
// command, to print its help, or to complete its flags. It returns nil if the command is in this program.
func handOver(args []string) error {
	words := args
	if len(words) > 0 && (words[0] == aboutHelp || words[0] == cobra.ShellCompRequestCmd || words[0] == cobra.ShellCompNoDescRequestCmd) {
		words = words[1:]
	}
	if len(words) == 0 {
		return nil
	}
	switch words[0] {
	case nameCp, nameFs, nameDoctor, nameChaos:
		return becomeMCPProgram(words[0], args)
	case nameMCP, nameMCPRun, nameSandbox: // may end with the exit code of a command that they run
		return failed(becomeMCPProgram(words[0], args))
	}
	return nil
}
