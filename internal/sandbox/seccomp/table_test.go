package seccomp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

func TestTablesHaveAllCallsOfRules(t *testing.T) {
	want := make(map[string]bool)
	for _, r := range rules {
		want[r.name] = true
	}
	for arch, table := range syscallTables {
		got := append(slices.Collect(maps.Keys(table.numbers)), table.lacks...)
		slices.Sort(got)
		if !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s numbers %v, rules name %v", arch, got, slices.Sorted(maps.Keys(want)))
		}
	}
}

// Compare both tables with the source of golang.org/x/sys/unix, which has the
// numbers of every architecture but is built for one.
func TestTablesAgreeWithSys(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
	if err != nil {
		need.CannotRun(t, "the go command does not find golang.org/x/sys/unix: %v", err)
	}
	for arch, table := range syscallTables {
		name := filepath.Join(strings.TrimSpace(string(out)), "zsysnum_linux_"+string(arch)+".go")
		published := parseNumbers(t, name)
		for _, name := range table.lacks {
			if number, ok := published["SYS_"+strings.ToUpper(name)]; ok {
				t.Errorf("%s has %s: %d", arch, name, number)
			}
		}
		for name, got := range table.numbers {
			want, ok := published["SYS_"+strings.ToUpper(name)]
			if !ok || got != want {
				t.Errorf("%s on %s is %d here, %d (found: %v) in x/sys", name, arch, got, want, ok)
			}
		}
	}
}

// parseNumbers reads the integer constants of a Go file.
func parseNumbers(t *testing.T, name string) map[string]uint32 {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	numbers := make(map[string]uint32)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.INT {
			if v, err := strconv.ParseUint(lit.Value, 0, 32); err == nil {
				numbers[spec.Names[0].Name] = uint32(v)
			}
		}
		return true
	})
	return numbers
}
