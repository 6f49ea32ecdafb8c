package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// groupKey marks a flag with the heading it appears under in the help.
const groupKey = "tether_group"

// group puts flags under a heading. Headings appear in the order in which their
// first flag was defined.
func group(fs *pflag.FlagSet, heading string, names ...string) {
	for _, name := range names {
		if err := fs.SetAnnotation(name, groupKey, []string{heading}); err != nil {
			panic(err) // a name that does not exist is a mistake in this program
		}
	}
}

// newHelp prints the help of a command by its name, and refuses a name that is none.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:                   "help [COMMAND...]",
		Short:                 "Print the help of a command",
		DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return noSuchCommand(cmd, append(rest, args...))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

func printHelp(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprintf(w, "%s\n\n", text)
	writeUsage(w, cmd)
}

func printUsage(cmd *cobra.Command) error {
	writeUsage(cmd.OutOrStderr(), cmd)
	return nil
}

func writeUsage(w io.Writer, cmd *cobra.Command) {
	if cmd.HasAvailableSubCommands() {
		if cmd.DisableFlagsInUseLine { // it also works without a subcommand
			fmt.Fprintf(w, "Usage: %s\n       %s COMMAND\n", cmd.UseLine(), cmd.CommandPath())
		} else {
			fmt.Fprintf(w, "Usage: %s COMMAND\n", cmd.CommandPath())
		}
		heading := ""
		for _, sub := range cmd.Commands() {
			if !sub.IsAvailableCommand() {
				continue
			}
			if title := cmp.Or(sub.GroupID, "Commands"); title != heading {
				heading = title
				fmt.Fprintf(w, "\n%s:\n", heading)
			}
			fmt.Fprintf(w, "  %-13s%s\n", sub.Name(), sub.Short)
		}
	} else {
		fmt.Fprintf(w, "Usage: %s\n", cmd.UseLine())
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	writeFlags(w, cmd.LocalFlags())
}

// writeFlags prints the flags under their headings.
func writeFlags(w io.Writer, fs *pflag.FlagSet) {
	for _, g := range groupedFlags(fs) {
		fmt.Fprintf(w, "\n%s:\n%s\n", g.heading, strings.TrimRight(g.flags.FlagUsages(), "\n"))
	}
}

// A flagGroup is a heading in the help, with its flags.
type flagGroup struct {
	heading string
	flags   *pflag.FlagSet
}

// groupedFlags returns the flags that the help shows, as they were defined: what belongs together stands together. Flags without a
// heading come last.
func groupedFlags(fs *pflag.FlagSet) (groups []flagGroup) {
	other := flagGroup{"Other", pflag.NewFlagSet("", pflag.ContinueOnError)}
	other.flags.SortFlags = false
	fs.SortFlags = false
	fs.VisitAll(func(f *pflag.Flag) {
		h := f.Annotations[groupKey]
		switch {
		case f.Hidden:
			return
		case h == nil:
			other.flags.AddFlag(f)
			return
		}
		i := slices.IndexFunc(groups, func(g flagGroup) bool { return g.heading == h[0] })
		if i < 0 {
			i = len(groups)
			groups = append(groups, flagGroup{h[0], pflag.NewFlagSet(h[0], pflag.ContinueOnError)})
			groups[i].flags.SortFlags = false
		}
		groups[i].flags.AddFlag(f)
	})
	if other.flags.HasFlags() {
		groups = append(groups, other)
	}
	return groups
}
