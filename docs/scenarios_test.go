package docs_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/scenario"
)

// scenarioID matches an id of a scenario, but no percent-encoded byte.
var scenarioID = regexp.MustCompile(`(?:^|[^%\w])([A-Z]{1,2}[0-9]{2})\b`)

// otherWords look like ids of scenarios and are none.
var otherWords = []string{
	"Q22", // a variable in a test of environments
	"X86", // in the name of a variable of Windows
}

// Each id of a scenario in the code and in the docs is listed once in scenarios.md, each listed id is used, and the column
// "Tests" names the packages whose tests use it and functions that exist there.
func TestScenariosAreListed(t *testing.T) {
	page, err := os.ReadFile("scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	users, functions := scenarioUsers(t)
	listed := map[string]bool{}
	for _, row := range scenario.Row.FindAllStringSubmatch(string(page), -1) {
		id, situation, tests := row[1], row[2], row[4]
		if listed[id] {
			t.Errorf("scenarios.md lists %s twice", id)
		}
		listed[id] = true
		if strings.ContainsAny(situation, "/`\"") {
			t.Errorf("scenarios.md: the situation of %s is the name of tests, so it must not contain a slash or quote: %s", id, situation)
		}
		used, exists := users[id]
		if !exists {
			t.Errorf("scenarios.md lists %s, which is used nowhere", id)
		}
		checkTests(t, id, tests, used, functions)
	}
	for id := range users {
		if !listed[id] {
			t.Errorf("scenarios.md does not list %s", id)
		}
	}
}

var (
	testPackage  = regexp.MustCompile("`([^`]+)`")
	testFunction = regexp.MustCompile(`\bTest\w+`)
)

// checkTests compares the column "Tests" of a scenario with the packages whose tests use it.
func checkTests(t *testing.T, id, column string, used []string, functions map[string]string) {
	t.Helper()
	var named []string
	for part := range strings.SplitSeq(column, ";") {
		found := testPackage.FindStringSubmatch(part)
		if found == nil {
			continue
		}
		named = append(named, found[1])
		for _, function := range testFunction.FindAllString(part, -1) {
			if !strings.Contains(functions[found[1]], "func "+function+"(") {
				t.Errorf("scenarios.md, %s: %s has no %s", id, found[1], function)
			}
		}
	}
	slices.Sort(named)
	if !slices.Equal(named, used) {
		t.Errorf("scenarios.md, %s: the column names tests of %q, and tests of %q use the id", id, named, used)
	}
}

// scenarioUsers returns the ids that the code and the docs use, each with the packages whose tests use it, and the test files
// of each package.
func scenarioUsers(t *testing.T) (users map[string][]string, tests map[string]string) {
	t.Helper()
	users, tests = map[string][]string{}, map[string]string{}
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		ext := path.Ext(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case ext != ".go" && ext != ".md" || name == "docs/scenarios.md" || name == "docs/scenarios_test.go" || strings.HasPrefix(name, "internal/tethertest/scenario/"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		dir, isTest := path.Dir(name), strings.HasSuffix(name, "_test.go")
		if isTest {
			tests[dir] += string(text)
		}
		for _, found := range scenarioID.FindAllStringSubmatch(string(text), -1) {
			id := found[1]
			if slices.Contains(otherWords, id) {
				continue
			}
			if users[id] == nil {
				users[id] = []string{}
			}
			if isTest && !slices.Contains(users[id], dir) {
				users[id] = append(users[id], dir)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, packages := range users {
		slices.Sort(packages)
	}
	return users, tests
}
