package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/internal/reexec"
)

// Every command line with tether in README.md and in docs, in a block or in a sentence, names a command that exists and
// has only flags that the command has.
func TestDocumentedCommandLines(t *testing.T) {
	t.Parallel()
	found := 0
	for name, page := range documentation(t) {
		for _, line := range documentedLines(page) {
			words, err := splitWords(line)
			if err != nil {
				continue // a sentence, or part of a longer script
			}
			for _, args := range tetherCommands(words) {
				found++
				if err := checkCommandLine(args); err != nil {
					t.Errorf("%s: %s: %v", name, line, err)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("found only %d command lines", found)
	}
}

// otherFlags are flags in the documentation that belong to other programs.
var otherFlags = map[string]string{
	"--experimental-websocket": "node",
	"--bind-fd":                "bubblewrap",
	"--from":                   "install.sh",
}

// Every flag that a sentence in README.md or in docs mentions is a flag of some command.
func TestDocumentedFlags(t *testing.T) {
	t.Parallel()
	flags := map[string]bool{"--help": true}
	all := newRoot([]string{"help", "serve", "app-server"}, nil, nil, io.Discard) // these two have their flags only if they are named
	addFlags(all, flags)
	for name, page := range documentation(t) {
		for _, span := range codeSpans(page) {
			flag, _, _ := strings.Cut(strings.Fields(span + " ")[0], "=")
			if strings.HasPrefix(flag, "--") && len(flag) > 2 && !flags[flag] && otherFlags[flag] == "" {
				t.Errorf("%s: `%s`: no command has the flag %s", name, span, flag)
			}
		}
	}
}

// addFlags adds the flags of a command and of its subcommands.
func addFlags(cmd *cobra.Command, flags map[string]bool) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { flags["--"+f.Name] = true })
	for _, sub := range cmd.Commands() {
		addFlags(sub, flags)
	}
}

// documentation returns the pages beside README.md and those in docs, by name.
func documentation(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob("../../docs/adr/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, name := range append(append(names, records...), "../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(text)
	}
	return pages
}

var (
	fencedBlock    = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	doubleCodeSpan = regexp.MustCompile("``.*?``")
	shellComment   = regexp.MustCompile(`(?m) +# .*$`)
	codeSpan       = regexp.MustCompile("`([^`]+)`")
)

// codeSpans returns what stands in backquotes within the sentences of a page.
func codeSpans(page string) (spans []string) {
	text := doubleCodeSpan.ReplaceAllString(fencedBlock.ReplaceAllString(page, ""), "")
	for _, span := range codeSpan.FindAllStringSubmatch(text, -1) {
		spans = append(spans, strings.Join(strings.Fields(span[1]), " "))
	}
	return spans
}

// documentedLines returns the command lines in the blocks and sentences of a page.
func documentedLines(page string) []string {
	lines := codeSpans(page)
	for _, block := range fencedBlock.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[2], "\\\n", " ")) {
			line, prompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if block[1] == "sh" || prompt {
				lines = append(lines, shellComment.ReplaceAllString(line, ""))
			}
		}
	}
	for line := range strings.Lines(fencedBlock.ReplaceAllString(page, "")) {
		if strings.HasPrefix(line, "    ") {
			lines = append(lines, shellComment.ReplaceAllString(strings.TrimSpace(line), ""))
		}
	}
	return lines
}

// tetherCommands returns the arguments of each tether in a pipeline.
func tetherCommands(words []string) (commands [][]string) {
	for len(words) > 0 {
		end := slices.IndexFunc(words, func(w string) bool { return slices.Contains([]string{"|", "&", "&&", ";", ">", "do"}, w) })
		command := words
		if words = nil; end >= 0 {
			command, words = command[:end], command[end+1:]
		}
		for len(command) > 0 && (strings.Contains(command[0], "=") || command[0] == "sudo" || command[0] == "nohup") {
			command = command[1:]
		}
		if len(command) > 0 && (command[0] == "tether" || command[0] == "bin/tether") {
			commands = append(commands, command[1:])
		}
	}
	return commands
}

// placeholder is a word that a reader replaces: COMMAND, NAME=VALUE or an ellipsis.
var placeholder = regexp.MustCompile(`^[A-Z][A-Z_]*|^\[|…`)

// checkCommandLine returns an error if there is no such command, or if it does not have the flags.
func checkCommandLine(args []string) error {
	if len(args) == 0 || placeholder.MatchString(args[0]) || args[0] == reexec.Command {
		return nil
	}
	cmd, rest, err := newRoot(args, nil, nil, io.Discard).Find(args)
	if err != nil {
		return err
	}
	if !cmd.HasParent() && !strings.HasPrefix(args[0], "-") {
		return noSuchCommand(cmd, args)
	}
	err = cmd.ParseFlags(rest)
	if _, cut := errors.AsType[*pflag.ValueRequiredError](err); cut {
		return nil // a sentence names the flag without its value
	}
	return err
}
