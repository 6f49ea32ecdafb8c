// Package docs checks the documentation against the code.
package docs

import (
	"bytes"
	"errors"
	"go/build"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tetherexec/tether/"

// support has the packages that are not part of the product: tests, benchmarks and examples may import anything.
var support = regexp.MustCompile(`^(bench|clients|conformance|docs|examples|interop|internal/console/browser|internal/fleet/fleettest|internal/tethertest|tools)(/|$)|/internal/`)

// The table of packages in architecture.md names every package of the product, and each package imports only packages
// that stand below it in the table.
func TestImportsGoDown(t *testing.T) {
	rows := packageTable(t)
	imports := productImports(t)

	for _, name := range slices.Sorted(maps.Keys(imports)) {
		if !slices.Contains(rows, name) {
			t.Errorf("docs/architecture.md: the table of packages has no row for %s", name)
		}
	}
	for at, name := range rows {
		if _, exists := imports[name]; !exists {
			t.Errorf("docs/architecture.md: the table of packages has a row for %s, which does not exist", name)
		}
		for _, imported := range imports[name] {
			if below := slices.Index(rows, imported); below >= 0 && below < at {
				t.Errorf("%s imports %s, which stands above it in the table of docs/architecture.md", name, imported)
			}
		}
	}
}

// packageTable returns the packages of the table in architecture.md, from top to bottom.
func packageTable(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := bytes.Cut(page, []byte("\n## Packages\n"))
	if !found {
		t.Fatal(`architecture.md has no section "Packages"`)
	}
	section, _, _ = bytes.Cut(section, []byte("\n## "))
	var rows []string
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(section, -1) {
		rows = append(rows, string(match[1]))
	}
	if len(rows) < 30 {
		t.Fatalf("found only %d rows in the table of packages: %v", len(rows), rows)
	}
	return rows
}

// productImports returns the packages of the product, each with those that it imports on any of the platforms, with each
// of the build tags.
// It reads the files itself instead of running "go list", so that the cache of test results notices a change.
func productImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir() || name == ".":
			return nil
		case strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules" || support.MatchString(name):
			return fs.SkipDir
		}
		for _, target := range targets() {
			p, err := target.ImportDir(filepath.Join("..", name), 0)
			if _, empty := errors.AsType[*build.NoGoError](err); empty {
				continue
			} else if err != nil {
				return err
			}
			imports[name] = append(imports[name], ours(p.Imports)...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

// targets returns what the product is built for.
func targets() (list []build.Context) {
	for _, platform := range []string{"linux", "darwin", "windows"} {
		for _, tags := range [][]string{nil, {"mcp"}, {"fleet"}, {"split"}} {
			target := build.Default
			target.GOOS, target.CgoEnabled, target.BuildTags = platform, false, tags
			list = append(list, target)
		}
	}
	return list
}

// ours returns the imports that are packages of this module, without the module's name.
func ours(imports []string) []string {
	var names []string
	for _, path := range imports {
		if name, found := strings.CutPrefix(path, module); found {
			names = append(names, name)
		}
	}
	return names
}
