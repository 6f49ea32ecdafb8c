package sandbox

import (
	"strings"
	"testing"
)

func TestGlobMatch(t *testing.T) {
	for _, row := range []struct {
		pattern  string
		yes, not string
	}{
		{"*.env", "x.env .env d/x.env a/b/.env", "env x.envy"},
		{"**/*.env", "x.env a/b/x.env", "x"},
		{"a/*.env", "a/x.env", "x.env b/a/x.env a/b/x.env"},
		{"a/**", "a/b a/b/c", "a b/a"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "b a/x"},
		{"**", "a a/b", ""},
		{"a**b", "ab axb d/axxb", "a/b"},
		{"?", "a ü d/a", "ab"},
		{"[a-c]x", "ax cx", "dx x"},
		{"[!a-c]x", "dx", "ax"},
		{"[^a]", "b", "a"},
		{"[]a]", "] a", "b"},
		{"[a", "[a", "a"},
		{"[a/b]", "[a/b]", "a"},
		{`\*x`, "*x", "ax"},
		{`[\]]`, "]", `\`},
		{"*.{env,key}", "a.env d/b.key", "a.{env,key} a.txt"},
		{"*{a,b{c,d}}", "xa xbc xbd", "xb"},
		{"*{a", "x{a", "xa"},
		{"*}", "x}", "x"},
		{"[{]*,}", "{x,}", "x"},
		{"priv*/", "priv/ d/private/", "priv"},
		{"*a*a*a*a*b", "aaaab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
	} {
		patterns, ok := ParseGlob(row.pattern)
		if !ok {
			t.Errorf("%s: refused", row.pattern)
		}
		match := func(name string) bool {
			return patterns.Match(strings.Split(strings.TrimSuffix(name, "/"), "/"), strings.HasSuffix(name, "/"))
		}
		for name := range strings.FieldsSeq(row.yes) {
			if !match(name) {
				t.Errorf("%s does not match %s", row.pattern, name)
			}
		}
		for name := range strings.FieldsSeq(row.not) {
			if match(name) {
				t.Errorf("%s matches %s", row.pattern, name)
			}
		}
	}
	if _, ok := ParseGlob("*" + strings.Repeat("{a,b}", 9)); ok {
		t.Error("512 alternatives are accepted")
	}
}

func FuzzGlobMatch(f *testing.F) {
	f.Add("**/[a-z]{x,y}*", "a/bx")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		patterns, _ := ParseGlob(pattern)
		for _, p := range patterns {
			p.match(strings.Split(name, "/"))
		}
	})
}
