package seatbelt

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/sandbox"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var workspace = &sandbox.Plan{
	Shape: sandbox.ShapeNamespaces, Filter: sandbox.FilterRestricted, Cwd: "/Users/dev/project",
	Ops: []sandbox.Op{
		{Kind: sandbox.OpBindRO, Path: "/"},
		{Kind: sandbox.OpDev, Path: "/dev"},
		{Kind: sandbox.OpProc, Path: "/proc"},
		{Kind: sandbox.OpFreeze, Path: "/proc/sys"},
		{Kind: sandbox.OpMaskDir, Path: "/Users/dev/.local/state/tether"},
		{Kind: sandbox.OpSeal, Path: "/Users/dev/.local/state/tether"},
		{Kind: sandbox.OpBindRW, Path: "/Users/dev/project"},
		{Kind: sandbox.OpPlaceholder, Path: "/Users/dev/project/.codex", Mode: os.ModeDir},
		{Kind: sandbox.OpMaskDir, Path: "/Users/dev/project/.codex", Mode: 0o555},
		{Kind: sandbox.OpBindRO, Path: "/Users/dev/project/.git"},
		{Kind: sandbox.OpPin, Path: "/Users/dev/project/deploy"},
		{Kind: sandbox.OpMaskFile, Path: "/Users/dev/project/deploy/key"},
		{Kind: sandbox.OpCover, Path: "/Users/dev/project/link"},
		{Kind: sandbox.OpBindRW, Path: "/private/tmp"},
	},
}

func plan(filter sandbox.Filter, ops ...sandbox.Op) *sandbox.Plan {
	return &sandbox.Plan{Shape: sandbox.ShapeNamespaces, Filter: filter, Ops: ops}
}

func TestProfiles(t *testing.T) {
	root := sandbox.Op{Kind: sandbox.OpBindRO, Path: "/"}
	for name, test := range map[string]struct {
		plan    *sandbox.Plan
		request Request
	}{
		"read-only":       {plan(sandbox.FilterRestricted, root), Request{}},
		"workspace-write": {workspace, Request{}},
		"network-open":    {plan(sandbox.FilterOpen, root), Request{}},
		"managed":         {plan(sandbox.FilterProxyUnix, root), Request{Ports: []uint16{8080, 1080}}},
		"full-write":      {&sandbox.Plan{Shape: sandbox.ShapeFilter, Filter: sandbox.FilterRestricted}, Request{}},
		"hostile-names": {plan(sandbox.FilterRestricted,
			sandbox.Op{Kind: sandbox.OpScratch, Path: "/"},
			sandbox.Op{Kind: sandbox.OpBindRW, Path: "/ws\") (allow default) (\"\n;"},
			sandbox.Op{Kind: sandbox.OpBindRO, Path: "/ws\") (allow default) (\"\n;/=\\a\xff"}), Request{}},
		"globs": {workspace, Request{Globs: []sandbox.BookGlob{
			{Dir: "/Users/dev/project", Pattern: "*.{key,pem}"}, {Dir: "/Users/dev/project", Pattern: "a/**/secret[0-9]?.txt"}, {Dir: "/Users/dé v\"/x", Pattern: "**"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := New(test.plan, test.request)
			if err != nil {
				t.Fatal(err)
			}
			got := p.Text
			for _, v := range p.Parameters {
				got += fmt.Sprintf("; %s=%q\n", v.Key, v.Value)
			}
			golden := filepath.Join("testdata", name+".sb")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if args := p.Arguments(); args[0] != "-p" || args[1] != p.Text || args[len(args)-1] != "--" || len(args) != 3+len(p.Parameters) {
				t.Errorf("arguments %q", args)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	many := plan(sandbox.FilterRestricted, sandbox.Op{Kind: sandbox.OpBindRW, Path: "/"})
	for i := range maxFilters {
		many.Ops = append(many.Ops, sandbox.Op{Kind: sandbox.OpBindRO, Path: fmt.Sprintf("/%d", i)})
	}
	root := sandbox.Op{Kind: sandbox.OpBindRO, Path: "/"}
	for name, test := range map[string]struct {
		plan    *sandbox.Plan
		request Request
	}{
		"open":           {&sandbox.Plan{}, Request{}},
		"operation":      {plan(sandbox.FilterRestricted, root, sandbox.Op{Kind: 99, Path: "/x"}), Request{}},
		"filter":         {plan(99, root), Request{}},
		"no ports":       {plan(sandbox.FilterProxy, root), Request{}},
		"port 0":         {plan(sandbox.FilterProxy, root), Request{Ports: []uint16{0}}},
		"relative":       {plan(sandbox.FilterRestricted, sandbox.Op{Kind: sandbox.OpBindRW, Path: "x"}), Request{}},
		"NUL":            {plan(sandbox.FilterRestricted, sandbox.Op{Kind: sandbox.OpBindRW, Path: "/x\x00y"}), Request{}},
		"too many rules": {many, Request{}},
		"relative glob":  {plan(sandbox.FilterRestricted, root), Request{Globs: []sandbox.BookGlob{{Dir: "x", Pattern: "*"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if r := recover(); r != nil { // the name of an operation that does not exist
					t.Log(r)
				}
			}()
			if p, err := New(test.plan, test.request); err == nil {
				t.Errorf("%s", p.Text)
			}
		})
	}
}

// The profile allows what the plan allows on Linux, and nothing else.
func TestProfileAgreesWithPlan(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "b", "c", "ab"}
	randomPath := func() string {
		path := ""
		for range random.IntN(4) + 1 {
			path += "/" + names[random.IntN(len(names))]
		}
		return path
	}
	kinds := []sandbox.OpKind{sandbox.OpBindRO, sandbox.OpBindRW, sandbox.OpMaskDir, sandbox.OpMaskFile, sandbox.OpCover}
	for range 500 {
		byPath := map[string]sandbox.Op{}
		for range random.IntN(10) {
			op := sandbox.Op{Kind: kinds[random.IntN(len(kinds))], Path: randomPath()}
			byPath[op.Path] = op
		}
		ops := []sandbox.Op{{Kind: []sandbox.OpKind{sandbox.OpScratch, sandbox.OpBindRO, sandbox.OpBindRW}[random.IntN(3)], Path: "/"}}
		for depth := 1; depth <= 4; depth++ { // outer ones first
			for path, op := range byPath {
				if strings.Count(path, "/") == depth {
					ops = append(ops, op)
				}
			}
		}
		p := plan(sandbox.FilterRestricted, ops...)
		profile, err := New(p, Request{})
		if err != nil {
			t.Fatal(err)
		}
		rules := parse(t, profile)
		for range 30 {
			path := randomPath()
			read, write := rules.allows("file-read*", path), rules.allows("file-write*", path)
			effect := p.Effect(path)
			if read != (effect == sandbox.HostReadable || effect == sandbox.HostWritable) || write != (effect == sandbox.HostWritable) {
				t.Fatalf("%s is %v, and the profile allows read %v, write %v:\n%s%v\n%s", path, effect, read, write, p, profile.Parameters, profile.Text)
			}
		}
	}
}

// Names that must not be created or moved are not in what is allowed, also without the rules that deny.
func TestProtectedNames(t *testing.T) {
	profile, err := New(workspace, Request{Globs: []sandbox.BookGlob{{Dir: "/Users/dev/project", Pattern: "*.{key,pem}"}, {Dir: "/Users/dev/project", Pattern: "s[a-c]?ret/"}}})
	if err != nil {
		t.Fatal(err)
	}
	rules := parse(t, profile)
	const ws = "/Users/dev/project"
	for path, want := range map[string][2]bool{ // read, write
		ws + "/file":                       {true, true},
		ws + "/.codex":                     {true, false},
		ws + "/.codex/config":              {true, false},
		ws + "/.git/config":                {true, false},
		ws + "/.gitignore":                 {true, true},
		ws + "/deploy":                     {true, false}, // it would take the key with it
		ws + "/deploy/other":               {true, true},
		ws + "/deploy/key":                 {false, false},
		ws + "/link":                       {false, false},
		ws + "/later.pem":                  {false, false},
		ws + "/deep/later.key/x":           {false, false},
		ws + "/later.pemx":                 {true, true},
		ws + "/secret/x":                   {false, false},
		"/Users/dev/other.pem":             {true, false},
		"/Users/dev/.local/state/tether/x": {false, false},
		"/private/tmp/x":                   {true, true},
		"/etc/passwd":                      {true, false},
	} {
		if read, write := rules.allows("file-read*", path), rules.allows("file-write*", path); read != want[0] || write != want[1] {
			t.Errorf("%s: read %v, write %v", path, read, write)
		}
	}
}

// Text is the same whatever the paths are: they are only in the parameters.
func FuzzPathsAreParameters(f *testing.F) {
	f.Add("a", "b", "*.key")
	f.Add(`") (allow default) ("`, "\n(version 1)", `#"`)
	f.Add("=", `\`, `{a,b}/**/[x]"`)
	f.Add("é", "\xff", "é\"[")
	f.Fuzz(func(t *testing.T, outer, inner, pattern string) {
		build := func(outer, inner string, globs ...sandbox.BookGlob) (*Profile, error) {
			return New(plan(sandbox.FilterRestricted, sandbox.Op{Kind: sandbox.OpBindRO, Path: "/"}, sandbox.Op{Kind: sandbox.OpBindRW, Path: "/" + outer},
				sandbox.Op{Kind: sandbox.OpPin, Path: "/" + outer + "/pin"}, sandbox.Op{Kind: sandbox.OpMaskFile, Path: "/" + outer + "/pin/" + inner}), Request{Globs: globs})
		}
		for _, name := range []string{outer, inner} {
			if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
				return
			}
		}
		plain, err := build("outer", "inner")
		if err != nil {
			t.Fatal(err)
		}
		got, err := build(outer, inner)
		if strings.ContainsRune(outer+inner, 0) {
			if err == nil {
				t.Error("a path with NUL is accepted")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		sorted := func(p *Profile) string { // ancestors are sorted by their names, so that the keys differ
			return regexp.MustCompile(`"P\d+"`).ReplaceAllString(p.Text, `"P"`)
		}
		if sorted(got) != sorted(plain) || len(got.Parameters) != len(plain.Parameters) {
			t.Errorf("paths change the text:\n%s", got.Text)
		}
		parse(t, got)

		// A glob adds only regular expressions without quotes, and matches what it should.
		globbed, err := build(outer, inner, sandbox.BookGlob{Dir: "/" + outer, Pattern: pattern})
		if err != nil {
			return
		}
		expression := regexp.MustCompile(`#"([^"\\\n]*)"`)
		without := strings.NewReplacer("\n    (require-not (regex #\"\"))", "", "(deny file-read* file-write* process-exec* (regex #\"\"))\n", "").
			Replace(expression.ReplaceAllStringFunc(sorted(globbed), func(text string) string {
				if strings.Contains(base, text) {
					return text
				}
				return `#""`
			}))
		if without != sorted(plain) {
			t.Errorf("a pattern changes the text:\n%s", globbed.Text)
		}
		rules := parse(t, globbed)
		parsed, _ := sandbox.ParseGlob(pattern)
		for _, name := range []string{"x", "x.key", inner, pattern, "a", "ab"} {
			if !strings.ContainsAny(name, "/\x00\n") && name != "" && parsed.Match([]string{name}, true) && rules.allows("file-read*", "/"+outer+"/"+name) {
				t.Errorf("%q matches %q and can be read:\n%s", name, pattern, globbed.Text)
			}
		}
	})
}
