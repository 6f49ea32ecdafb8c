package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// execute executes a command line as cobra's ExecuteC does, and returns the command. ExecuteC brings the scripts and functions for completion
// into each program that calls it, 0.1 MB; the released tether leaves completion to tether-mcp.
func execute(root *cobra.Command, args []string) (*cobra.Command, error) {
	if completes(args) {
		return complete(root)
	}
	cmd, words, err := root.Find(args)
	if err != nil {
		return root, err
	}
	cmd.SetContext(context.Background())
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(words); err != nil {
		return cmd, cmd.FlagErrorFunc()(cmd, err)
	}
	if help, err := cmd.Flags().GetBool("help"); err != nil || help || !cmd.Runnable() {
		return cmd, errors.Join(err, cmd.Help())
	}
	if !cmd.DisableFlagParsing {
		words = cmd.Flags().Args()
	}
	for _, check := range []func() error{func() error { return cmd.ValidateArgs(words) }, cmd.ValidateRequiredFlags, cmd.ValidateFlagGroups} {
		if err := check(); err != nil {
			return cmd, err
		}
	}
	return cmd, cmd.RunE(cmd, words)
}
