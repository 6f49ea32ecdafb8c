package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Every command line with tether in the files of examples/fleet names a command that exists and has only flags that the command has.
func TestFleetExamples(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../../examples/fleet/kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range append(names, "../../examples/fleet/compose.yaml") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		for {
			var document any
			if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, args := range yamlCommands(document) {
				found++
				if err := checkCommandLine(args); err != nil {
					t.Errorf("%s: tether %s: %v", name, strings.Join(args, " "), err)
				}
			}
		}
		for line := range strings.Lines(string(text)) { // how to use the file
			words, err := splitWords(strings.TrimPrefix(strings.TrimSpace(line), "#"))
			if err != nil || !slices.Contains(words, "tether") {
				continue
			}
			for _, args := range tetherCommands(words) {
				found++
				if err := checkCommandLine(args); err != nil {
					t.Errorf("%s: %s: %v", name, line, err)
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("found only %d command lines", found)
	}
}

// yamlCommands returns the arguments of each tether in the command lines of a document: in lists that begin with tether, with those in args
// beside them, and in scripts.
func yamlCommands(node any) (commands [][]string) {
	switch n := node.(type) {
	case map[string]any:
		command, args := yamlWords(n["command"]), yamlWords(n["args"])
		switch {
		case len(command) > 0 && command[0] == "tether":
			commands = append(commands, append(command[1:], args...))
		case len(command) > 2 && command[0] == "sh":
			for line := range strings.Lines(command[2]) {
				if words, err := splitWords(strings.TrimSpace(line)); err == nil {
					commands = append(commands, tetherCommands(words)...)
				}
			}
		}
		for _, value := range n {
			commands = append(commands, yamlCommands(value)...)
		}
	case []any:
		for _, value := range n {
			commands = append(commands, yamlCommands(value)...)
		}
	}
	return commands
}

// yamlWords returns the words of a list.
func yamlWords(node any) (words []string) {
	list, _ := node.([]any)
	for _, value := range list {
		if word, ok := value.(string); ok {
			words = append(words, word)
		}
	}
	return words
}
