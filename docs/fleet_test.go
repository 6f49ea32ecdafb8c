package docs

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
)

// The limits in fleet.md are those of the source.
func TestFleetLimits(t *testing.T) {
	t.Parallel()
	packages := map[string]*types.Scope{}
	rows := regexp.MustCompile("(?m)^\\|[^|]*\\| ([^|]+) \\| `([a-z]+)\\.([A-Za-z]+)` \\|$").FindAllStringSubmatch(section(t, "fleet.md", "Limits"), -1)
	if len(rows) < 30 {
		t.Fatalf("found only %d limits", len(rows))
	}
	for _, row := range rows {
		value, pkg, name := row[1], row[2], row[3]
		if packages[pkg] == nil {
			packages[pkg] = constants(t, pkg)
		}
		c, ok := packages[pkg].Lookup(name).(*types.Const)
		if !ok {
			t.Errorf("fleet.md: there is no constant %s.%s", pkg, name)
			continue
		}
		if got, exact := constant.Int64Val(c.Val()); !exact || got != number(t, value) {
			t.Errorf("fleet.md: %s.%s is %v, not %s", pkg, name, c.Val(), value)
		}
	}
}

// constants returns the declarations of a package of the fleet. Their types may be unknown where they come from other packages.
func constants(t *testing.T, name string) *types.Scope {
	t.Helper()
	dir := filepath.Join("../internal/fleet", name)
	if name == "fleet" {
		dir = "../internal/fleet"
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_other.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	config := types.Config{Importer: onlyTime{}, IgnoreFuncBodies: true, Error: func(error) {}}
	p, _ := config.Check(name, set, files, nil) // errors about other packages are no matter here
	return p.Scope()
}

// onlyTime imports the units of package time, and nothing else.
type onlyTime struct{}

func (onlyTime) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, filepath.Base(path))
	if path == "time" {
		name := types.NewTypeName(token.NoPos, p, "Duration", nil)
		duration := types.NewNamed(name, types.Typ[types.Int64], nil)
		p.Scope().Insert(name)
		for unit, d := range map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour} {
			p.Scope().Insert(types.NewConst(token.NoPos, p, unit, duration, constant.MakeInt64(int64(d))))
		}
		p.MarkComplete()
	}
	return p, nil
}

// number returns the value of a text such as "64 KiB", "5 s" or "4096". Times are in nanoseconds.
func number(t *testing.T, text string) int64 {
	t.Helper()
	digits, unit, _ := strings.Cut(text, " ")
	n, err := strconv.ParseInt(digits, 10, 64)
	factor, known := map[string]int64{
		"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
		"ms": int64(time.Millisecond), "s": int64(time.Second), "min": int64(time.Minute), "h": int64(time.Hour),
	}[unit]
	if err != nil || !known {
		t.Errorf("fleet.md: %q is no number with a unit", text)
	}
	return n * factor
}

// The permissions for an existing NATS in fleet.md are those of credentials that the hub makes.
func TestFleetPermissions(t *testing.T) {
	t.Parallel()
	page := section(t, "fleet.md", "An existing NATS")
	for role, want := range map[string]fleet.Permissions{
		"host `NAME`": fleet.HostPermissions("NAME"), "gateway": fleet.GatewayPermissions(), "operator": fleet.OperatorPermissions(),
	} {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(role) + ` \| ([^|]*) \| ([^|]*) \|$`).FindStringSubmatch(page)
		if row == nil {
			t.Errorf("fleet.md: the table of permissions has no row for the %s", role)
			continue
		}
		compareSubjects(t, role+", publish", row[1], want.Publish)
		compareSubjects(t, role+", subscribe", row[2], want.Subscribe)
	}
}

// compareSubjects compares the subjects in a cell with those of a role.
func compareSubjects(t *testing.T, what, cell string, want []string) {
	t.Helper()
	if strings.Contains(cell, "the same as a gateway except") {
		for _, bucket := range []string{fleet.HostsBucket, fleet.DrainsBucket} {
			for _, subject := range []string{"$JS.API.STREAM.INFO.KV_%", "$JS.API.DIRECT.GET.KV_%", "$JS.API.DIRECT.GET.KV_%.$KV.%.*", "$JS.API.STREAM.MSG.GET.KV_%"} {
				cell += " `" + strings.ReplaceAll(subject, "%", bucket) + "`"
			}
		}
	}
	got := map[string]bool{}
	for _, span := range regexp.MustCompile("`([^` ]*[.][^` ]*)`").FindAllStringSubmatch(cell, -1) {
		if !strings.Contains(span[1], "BUCKET") {
			got[span[1]] = true
			continue
		}
		for _, bucket := range []string{fleet.HostsBucket, fleet.SessionsBucket, fleet.DrainsBucket} {
			got[strings.ReplaceAll(span[1], "BUCKET", bucket)] = true
		}
	}
	for _, subject := range want {
		if !got[subject] {
			t.Errorf("fleet.md: %s: %s is missing", what, subject)
		}
		delete(got, subject)
	}
	delete(got, "STREAM.CREATE")
	for subject := range got {
		t.Errorf("fleet.md: %s: the role has no right to %s", what, subject)
	}
}

// section returns the text below a heading of a page.
func section(t *testing.T, page, title string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, page), "\n## "+title+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, title)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}
