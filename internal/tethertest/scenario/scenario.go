// Package scenario names the rows of tests by what docs/scenarios.md says about their ids. It imports nothing of tether,
// so that the tests of every package can use it.
package scenario

import (
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// Row is a line of a table in docs/scenarios.md: id, situation, expected behaviour, tests.
var Row = regexp.MustCompile(`(?m)^\| ([A-Z]{1,2}[0-9]{2}) \| (.+) \| (.+) \| (.+) \|$`)

var rowID = regexp.MustCompile(`^[A-Z]{1,2}[0-9]{2}\b`)

// Name returns the name of the subtest for a row of a test: the row's own name and the situation, as in
// "K10-net: terminate of a tree that ignores SIGTERM". A row whose name does not begin with an id keeps its name, and
// so does every row if the test program runs outside of the repository, as another user.
func Name(row string) string {
	id := rowID.FindString(row)
	if id == "" {
		return row
	}
	all := situations()
	if all == nil {
		return row
	}
	situation, ok := all[id]
	if !ok {
		panic("docs/scenarios.md does not list " + id)
	}
	return row + ": " + situation
}

// situations maps the ids of docs/scenarios.md to their situations; nil outside of the repository.
var situations = sync.OnceValue(func() map[string]string {
	root := repository()
	if root == "" {
		return nil
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "scenarios.md"))
	if err != nil {
		panic(err)
	}
	all := map[string]string{}
	for _, m := range Row.FindAllStringSubmatch(string(page), -1) {
		all[m[1]] = m[2]
	}
	return all
})

// repository returns the directory of go.mod, empty if the working directory is not below it. `go test` runs a test in
// the directory of its package, which is below.
func repository() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
