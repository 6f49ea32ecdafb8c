//go:build mcp || fleet || !split

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: shortCompletion,
		Long: "Print a script that lets a shell complete commands, flags and the names of processes:\n\n" +
			"  bash:       source <(tether completion bash)\n" +
			"  zsh:        source <(tether completion zsh)\n" +
			"  fish:       tether completion fish | source\n" +
			"  PowerShell: tether completion powershell | Out-String | Invoke-Expression",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usageError{errors.New("the name of a shell is missing: bash, zsh, fish or powershell")}
			case len(args) > 1:
				return usageError{fmt.Errorf("unexpected argument %q", args[1])}
			}
			return nil
		},
		ValidArgs:             []string{"bash", "zsh", "fish", "powershell"},
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, w := cmd.Root(), cmd.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(w, true)
			case "zsh":
				return root.GenZshCompletion(w)
			case "fish":
				return root.GenFishCompletion(w, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(w)
			}
			return usageError{fmt.Errorf("unknown shell %q: expected bash, zsh, fish or powershell", args[0])}
		},
	}
}
