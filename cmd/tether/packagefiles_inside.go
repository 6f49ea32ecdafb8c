//go:build mcp || fleet || !split

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tetherexec/tether/internal/service/unit"
)

// What the unit files of packages say: where the program is, the user that the package creates, and the first line.
const (
	packagedProgram = "/usr/bin/tether"
	packagedUser    = "tether"
	packagedMark    = "# Part of the package tether. `systemctl edit` changes it."
)

// printPackageFiles prints a JSON object: the names of the files of packages that are made from the commands of this program, and
// their contents. The date is for the manual pages.
func printPackageFiles(stdout *os.File, date string) error {
	files := map[string]string{}
	for _, name := range commandNames(newRoot(nil, nil, nil, io.Discard), "") {
		cmd := namedCommand(name)
		page := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		files["man/man1/"+page+".1"] = manualPage(cmd, date)
	}
	root := newRoot(nil, nil, nil, io.Discard)
	for shell, name := range map[string]string{
		"bash": "completions/bash/tether", "zsh": "completions/zsh/_tether", "fish": "completions/fish/tether.fish", "powershell": "completions/powershell/tether.ps1",
	} {
		var script bytes.Buffer
		root.SetOut(&script)
		root.SetArgs([]string{aboutCompletion, shell})
		if err := root.Execute(); err != nil {
			return err
		}
		files[name] = script.String()
	}
	for dir, o := range map[string]unit.Options{"system": {RunAs: packagedUser}, "user": {User: true}} {
		o.Program, o.Mark = packagedProgram, packagedMark
		for _, file := range o.Files() {
			files["systemd/"+dir+"/"+file.Name] = file.Text
		}
	}
	return json.NewEncoder(stdout).Encode(files)
}

// commandNames returns the names of a command and of its subcommands, without the name of the root command.
func commandNames(cmd *cobra.Command, prefix string) []string {
	names := []string{strings.TrimSpace(prefix)}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, commandNames(sub, prefix+" "+sub.Name())...)
		}
	}
	return names
}

// namedCommand returns a command with all its flags. Some commands have them only if the command line names the command.
func namedCommand(name string) *cobra.Command {
	words := strings.Fields(name)
	cmd, _, err := newRoot(append(words, "--help"), nil, nil, io.Discard).Find(words)
	if err != nil {
		panic(err) // the name is one of commandNames
	}
	cmd.InitDefaultHelpFlag()
	return cmd
}
