package main

import (
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
		fmt.Fprintf(w, "Usage: %s COMMAND\n\nCommands:\n", cmd.CommandPath())
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-13s%s\n", sub.Name(), sub.Short)
			}
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
