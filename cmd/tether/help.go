package main

import (
	"cmp"
	"fmt"
	"io"
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
	const other = "Other"
	var headings []string
	groups := map[string]*pflag.FlagSet{}
	fs.SortFlags = false // as defined: what belongs together stands together
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		heading := other
		if h := f.Annotations[groupKey]; h != nil {
			heading = h[0]
		}
		if groups[heading] == nil {
			groups[heading] = pflag.NewFlagSet(heading, pflag.ContinueOnError)
			groups[heading].SortFlags = false
			if heading != other {
				headings = append(headings, heading)
			}
		}
		groups[heading].AddFlag(f)
	})
	if groups[other] != nil {
		headings = append(headings, other)
	}
	for _, heading := range headings {
		fmt.Fprintf(w, "\n%s:\n%s\n", heading, strings.TrimRight(groups[heading].FlagUsages(), "\n"))
	}
}
