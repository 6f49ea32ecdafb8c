//go:build mcp || fleet || !split

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/schema"
)

func newSchema() *cobra.Command {
	format := schema.JSONSchema
	cmd := &cobra.Command{
		Use:   nameSchema + " [flags]",
		Short: shortSchema,
		Long: "Print a description of the protocols for programs, which clients in other languages can be generated from\n" +
			"or checked with: the exec-server protocol with the additions of tether, and the process API of\n" +
			"`tether app-server`. It has the types of all requests, results and notifications, and the codes and\n" +
			"reasons of errors.",
		Example: "  tether schema --format typescript > tether.ts",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := schema.Text(format)
			if err != nil {
				return usageError{err}
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
		DisableFlagsInUseLine: true,
	}
	fs := cmd.Flags()
	fs.StringVar(&format, "format", format, fmt.Sprintf("`FORMAT` of the description: %s", strings.Join(schema.Formats(), ", ")))
	complete := cobra.FixedCompletions(schema.Formats(), cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("format", complete); err != nil {
		panic(err) // the flag is defined above
	}
	onlyOnce(fs)
	return cmd
}
