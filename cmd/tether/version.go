package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

// version is set by the linker for a release.
var version = ""

// versionText is the version of the release, else that of the module if it was installed with
// one, else "dev".
func versionText() string { return cmp.Or(version, moduleVersion(), "dev") }

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printVersion(cmd.OutOrStdout())
		},
	}
}

func printVersion(w io.Writer) error {
	_, err := fmt.Fprintf(w, "tether %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
