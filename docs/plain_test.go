package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plainList is the list PLAIN in the Makefile.
var plainList = regexp.MustCompile(`(?s)\nPLAIN := ([^$]*)\$\(addprefix internal/,([^)]*)\)`)

// The packages that make test runs without the race detector start no goroutines, and have nothing that goroutines share. For
// docs and examples it does not matter: their tests run no code of tether in their own process.
func TestPlainPackages(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := plainList.FindSubmatch(makefile)
	if m == nil {
		t.Fatal("the Makefile has no list PLAIN")
	}
	dirs := strings.Fields(string(m[1]))
	for _, name := range strings.Fields(strings.ReplaceAll(string(m[2]), "\\\n", " ")) {
		dirs = append(dirs, "internal/"+name)
	}
	if len(dirs) < 10 {
		t.Errorf("only %q", dirs)
	}
	for _, dir := range dirs {
		if dir == "docs" || dir == "examples" {
			continue
		}
		files, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no files: %v", dir, err)
		}
		for _, name := range files {
			if why := concurrent(t, name); why != "" {
				t.Errorf("%s has %s: take %s out of PLAIN in the Makefile", name, why, dir)
			}
		}
	}
}

// concurrent returns what a file has that goroutines need; "": nothing.
func concurrent(t *testing.T, name string) (what string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range f.Imports {
		if slices.Contains([]string{`"sync"`, `"sync/atomic"`, `"net/http"`, `"golang.org/x/sync/errgroup"`}, spec.Path.Value) {
			return "the import " + spec.Path.Value
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			what = "a go statement"
		case *ast.SelectorExpr:
			if n.Sel.Name == "Parallel" || n.Sel.Name == "AfterFunc" {
				what = n.Sel.Name
			}
		}
		return what == ""
	})
	return what
}
