//go:build mcp || fleet || !split

package main

import "github.com/spf13/cobra"

// namesOnly: this program has the flags and the help of all commands.
const namesOnly = false

// complete answers a shell that completes a command line.
func complete(root *cobra.Command) (*cobra.Command, error) { return root.ExecuteC() }
