// Command size measures the source of tether: how much there is, and which structs, functions, files and names are the
// largest. It is a meter, not a limit.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// shown is how many of the largest structs, functions and files are printed.
const shown = 12

// support has the directories whose code is for tests, benchmarks and examples.
var support = []string{"bench", "conformance", "examples", "interop", "internal/tethertest"}

func main() {
	log.SetFlags(0)
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	m := meter{types: map[string]map[string]bool{}}
	if err := m.read(os.DirFS(root)); err != nil {
		log.Fatal(err)
	}
	m.print()
}

// A measure is a struct, function or file with its size.
type measure struct {
	name string
	size int
}

// A meter collects the sizes of all files.
type meter struct {
	product, helpers, tests, command int // lines
	structs, functions, files        []measure
	types                            map[string]map[string]bool // by name of a type: the packages that declare it
}

// read measures every Go file below the root, without hidden directories, test data and the tools.
func (m *meter) read(root fs.FS) error {
	return fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || name == "tools"):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return m.add(name, text)
	})
}

// add measures one file.
func (m *meter) add(name string, text []byte) error {
	lines := bytes.Count(text, []byte("\n"))
	switch {
	case strings.HasSuffix(name, "_test.go"):
		m.tests += lines
		return nil
	case slices.ContainsFunc(support, func(dir string) bool { return strings.HasPrefix(name, dir+"/") }):
		m.helpers += lines
		return nil
	}
	m.product += lines
	if strings.HasPrefix(name, "cmd/tether/") {
		m.command += lines
	}
	m.files = append(m.files, measure{name, lines})

	positions := token.NewFileSet()
	file, err := parser.ParseFile(positions, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	for _, declaration := range file.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			size := positions.Position(d.End()).Line - positions.Position(d.Pos()).Line + 1
			m.functions = append(m.functions, measure{dir + " " + d.Name.Name, size})
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					m.addType(dir, t)
				}
			}
		}
	}
	return nil
}

// addType notes where a type is declared and, for a struct, how many fields it has.
func (m *meter) addType(dir string, t *ast.TypeSpec) {
	name := strings.ToLower(t.Name.Name)
	if m.types[name] == nil {
		m.types[name] = map[string]bool{}
	}
	m.types[name][dir] = true
	s, ok := t.Type.(*ast.StructType)
	if !ok {
		return
	}
	fields := 0
	for _, field := range s.Fields.List {
		fields += max(1, len(field.Names))
	}
	m.structs = append(m.structs, measure{dir + " " + t.Name.Name, fields})
}

func (m *meter) print() {
	fmt.Printf("lines of product  %6d   of which cmd/tether %d\n", m.product, m.command)
	fmt.Printf("lines of support  %6d   %s\n", m.helpers, strings.Join(support, ", "))
	fmt.Printf("lines of tests    %6d\n", m.tests)
	largest("structs, by fields", m.structs)
	largest("functions, by lines", m.functions)
	largest("files, by lines", m.files)

	fmt.Println("\nnames of types in three packages or more")
	for _, name := range slices.Sorted(maps.Keys(m.types)) {
		if dirs := m.types[name]; len(dirs) >= 3 {
			fmt.Printf("  %-12s %s\n", name, strings.Join(slices.Sorted(maps.Keys(dirs)), ", "))
		}
	}
}

// largest prints the largest measures.
func largest(title string, all []measure) {
	slices.SortStableFunc(all, func(a, b measure) int { return cmp.Compare(b.size, a.size) })
	fmt.Printf("\n%s\n", title)
	for _, m := range all[:min(shown, len(all))] {
		fmt.Printf("  %4d  %s\n", m.size, m.name)
	}
}
