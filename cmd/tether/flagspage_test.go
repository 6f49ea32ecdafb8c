package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagsPage lists the flags of all commands.
const flagsPage = "../../docs/flags.md"

// docs/flags.md has every flag of every command.
func TestHelpPage(t *testing.T) {
	t.Parallel()
	got := listFlags(t)
	if *update {
		if err := os.WriteFile(flagsPage, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(flagsPage)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/flags.md is not up to date: go test ./cmd/tether -run TestHelp -update")
	}
}

// serverGroup is the heading of the flags by which commands name a server. Most commands have them.
const serverGroup = "Server"

// listFlags returns the page.
func listFlags(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("# Flags\n\n" +
		"This page is made from the commands (`go test ./cmd/tether -run TestHelp -update`); [cli.md](cli.md) explains them. Each command also has `--help`. The flags of `serve`, `app-server`, `gateway` and `hub` are the keys\n" +
		"of their tables in the [configuration file](cli.md#the-configuration-file), without the dashes.\n\n## The server of a command\n\n")
	shared := map[string]bool{}
	for _, g := range groupedFlags(commandNamed(t, namePs).LocalFlags()) {
		if g.heading == serverGroup {
			b.WriteString("| | |\n|---|---|\n")
			listGroup(&b, g.flags)
			g.flags.VisitAll(func(f *pflag.Flag) { shared[f.Name] = true })
		}
	}
	for _, path := range commandNames(newRoot(nil, nil, nil, io.Discard), "") {
		if path != "" {
			listCommand(&b, commandNamed(t, path), shared)
		}
	}
	return b.Bytes()
}

// commandNamed returns the command with a name, made as for a command line with it.
func commandNamed(t *testing.T, path string) *cobra.Command {
	t.Helper()
	args := strings.Fields(path)
	cmd, rest, err := newRoot(args, nil, nil, io.Discard).Find(args)
	if err != nil || len(rest) > 0 {
		t.Fatal(path, rest, err)
	}
	return cmd
}

// listCommand writes the flags of a command, without those of its server that all commands have.
func listCommand(b *bytes.Buffer, cmd *cobra.Command, shared map[string]bool) {
	fmt.Fprintf(b, "\n## `%s`\n\n%s", cmd.CommandPath(), cmd.Short)
	table := "\n\n| | |\n|---|---|\n"
	for _, g := range groupedFlags(cmd.LocalFlags()) {
		own := pflag.NewFlagSet(g.heading, pflag.ContinueOnError)
		own.SortFlags = false
		g.flags.VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && (g.heading != serverGroup || !shared[f.Name]) {
				own.AddFlag(f)
			}
		})
		if g.heading == serverGroup {
			b.WriteString(". It has the flags for [its server](#the-server-of-a-command)")
		}
		if own.HasFlags() {
			table += fmt.Sprintf("| **%s** | |\n", g.heading)
			var rows bytes.Buffer
			listGroup(&rows, own)
			table += rows.String()
		}
	}
	b.WriteString(".")
	if strings.Count(table, "\n") > 4 {
		b.WriteString(table)
	} else {
		b.WriteString("\n")
	}
}

// asMarkdown lets a text of the help stay as it is in a table.
var asMarkdown = strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`)

// listGroup writes a row for each flag.
func listGroup(b *bytes.Buffer, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		name, text := flagAndText(f)
		fmt.Fprintf(b, "| `%s` | %s |\n", name, asMarkdown.Replace(text))
	})
}

// docs/cli.md has a row and a section for each group of `tether help`, in the same order, and in it a heading for each command.
func TestCommandsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	rest, section, group := string(page), "", ""
	for _, cmd := range newRoot([]string{aboutHelp}, nil, nil, io.Discard).Commands() {
		if !cmd.IsAvailableCommand() {
			continue
		}
		if cmd.GroupID != group {
			group = cmd.GroupID
			var found bool
			if _, rest, found = strings.Cut(rest, "\n## "+group+"\n"); !found {
				t.Fatalf("docs/cli.md has no section %q behind the one before it in `tether help`", group)
			}
			section, _, _ = strings.Cut(rest, "\n## ")
		}
		found := false
		for line := range strings.Lines(section) {
			found = found || strings.HasPrefix(line, "### ") && strings.Contains(line, "`tether "+cmd.Name()+"`")
		}
		if !found {
			t.Errorf("docs/cli.md: the section %q has no heading for `tether %s`", group, cmd.Name())
		}
		if row := regexp.MustCompile(`(?m)^\| \[` + group + `\]\(#.*$`).FindString(string(page)); !strings.Contains(row, "`"+cmd.Name()+"`") {
			t.Errorf("docs/cli.md: the row %q of the first table does not have `%s`", group, cmd.Name())
		}
	}
}

// docs/cli.md has the variables of the environment that are for users.
func TestVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Environment variables\n")
	notForUsers := []string{hastyVariable, instanceVariable}
	found := 0
	for _, pattern := range []string{"*.go", "../../internal/settings/*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`"(TETHER_[A-Z_]+)"`).FindAllStringSubmatch(string(text), -1) {
				if found++; !slices.Contains(notForUsers, match[1]) && !strings.Contains(section, "`"+match[1]+"`") {
					t.Errorf("%s: docs/cli.md does not have the variable %s", name, match[1])
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("found only %d variables", found)
	}
}
