package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

// The linker sets these: the version, and for a release the commit of its source.
var version, commit = "", ""

// versionText is the version of the release, else that of the module if it was installed with
// one, else "dev".
func versionText() string { return cmp.Or(version, moduleVersion(), "dev") }

func newVersion() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printVersionJSON(cmd.OutOrStdout())
			}
			return printVersion(cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func printVersion(w io.Writer) error {
	_, err := fmt.Fprintf(w, "tether %s %s %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

func printVersionJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(struct {
		Version string `json:"version"`
		Commit  string `json:"commit,omitempty"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{versionText(), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH})
}
