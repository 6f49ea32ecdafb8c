package environ

import (
	"runtime"
	"slices"
)

// Overlay returns the environment of a command that begins with all of the server's
// variables, as NAME=value strings, sorted by name, each name once. overrides
// replaces and adds variables or, with nil, removes them. The names that carry the
// executor's own identity are removed last.
func Overlay(server []string, overrides map[string]*string) []string {
	vars := variables{foldNames: runtime.GOOS == "windows", byKey: make(map[string]variable)}
	for _, entry := range server {
		if name, value, ok := split(entry); ok {
			vars.set(name, value)
		}
	}
	names := make([]string, 0, len(overrides))
	for name := range overrides {
		names = append(names, name)
	}
	slices.Sort(names) // so that of two names with one key the same one always wins
	for _, name := range names {
		if value := overrides[name]; value != nil {
			vars.set(name, *value)
		} else {
			delete(vars.byKey, vars.key(name))
		}
	}
	vars.drop(identity)
	return vars.sorted()
}
