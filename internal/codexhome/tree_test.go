package codexhome

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

func TestWriteKeepsOrderAndMeaning(t *testing.T) {
	tests := []struct{ in, out string }{
		{"", ""},
		{"b = 1\na = 2 # why\n", "b = 1\na = 2\n"},
		{"[t.z]\nx = 1\n[t.a]\n", "[t.z]\nx = 1\n\n[t.a]\n"},
		{"a.b.c = 1\na.d = 2\n", "[a]\nd = 2\n\n[a.b]\nc = 1\n"},
		{"[[l]]\nx = 1\n[[l.m]]\n[[l]]\n", "[[l]]\nx = 1\n\n[[l.m]]\n\n[[l]]\n"},
		{"i = { z = 1, a = [ 1,\n2, # c\n] }\n", "[i]\nz = 1\na = [1, 2]\n"},
		{"m = [1, {b = {}}]\nl = [[{a=1}]]", "m = [1, { b = {} }]\nl = [[{ a = 1 }]]\n"},
		{"\"a b\" = 'x\"\\'\n\"\" = '''\nm\n'''\n", "\"a b\" = \"x\\\"\\\\\"\n\"\" = \"m\\n\"\n"},
		{"c = \"\\u0001\\u007fé\\t\"\n", "c = \"\\u0001\\u007Fé\\t\"\n"},
		{"n = [1_000, 0xff, 1e3, -inf, true, 1979-05-27T07:32:00Z]\n", "n = [1_000, 0xff, 1e3, -inf, true, 1979-05-27T07:32:00Z]\n"},
	}
	for _, tt := range tests {
		parsed, err := parse(t.Context(), []byte(tt.in))
		if err != nil {
			t.Errorf("parse(%q): %v", tt.in, err)
			continue
		}
		if got, err := parsed.text(); err != nil || got != tt.out {
			t.Errorf("%q is written as\n%s, %v\nwant\n%s", tt.in, got, err, tt.out)
		}
	}
}

func TestParseErrors(t *testing.T) {
	tests := map[string]struct{ line, column int }{
		"a = 1\nb = [\n":                        {2, 6},
		"a = 1\na = 2\n":                        {2, 1},
		"x" + strings.Repeat(".a", 100) + "= 1": {1, 1},
		"x = " + strings.Repeat("[", 100) + strings.Repeat("]", 100): {1, 1},
	}
	for in, want := range tests {
		_, err := parse(t.Context(), []byte(in))
		e, ok := err.(*syntaxError)
		if !ok || e.line != want.line || e.column != want.column || e.message == "" {
			t.Errorf("parse(%q) = %#v, want an error at %v", in, err, want)
		}
	}
}

func TestExcerptPointsAtTheError(t *testing.T) {
	_, err := parse(t.Context(), []byte("a = 1\nb = [\n"))
	want := "TOML parse error at line 2, column 6\n  |\n2 | b = [\n  |      ^\n"
	if got := err.(*syntaxError).excerpt(); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want it to start with %q", got, want)
	}
}

func TestKeep(t *testing.T) {
	const text = "s = 1\n[t]\na = 1\n[t.u]\nb = 2\nc = 3\n[[l]]\nq = 1\n"
	tests := []struct {
		paths [][]string
		want  string
	}{
		{[][]string{{"none"}}, ""},
		{[][]string{{"t", "u", "c"}}, "[t.u]\nc = 3\n"},
		{[][]string{{"t", "u", "c"}, {"t", "u"}}, "[t.u]\nb = 2\nc = 3\n"},
		{[][]string{{"t", "none"}}, "[t]\n"},                                        // the table exists
		{[][]string{{"s", "x"}, {"l", "q"}, {"l", "0"}}, "s = 1\n\n[[l]]\nq = 1\n"}, // kept whole
	}
	parsed, err := parse(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		if got, err := parsed.keep(tt.paths).text(); err != nil || got != tt.want {
			t.Errorf("keep(%q) = %q, %v, want %q", tt.paths, got, err, tt.want)
		}
	}
}

// FuzzWrite checks that a written document means the same as the one that was read.
func FuzzWrite(f *testing.F) {
	f.Add("a = 1\n[b.c]\nd = { e = [1, 2.5, '''x''', {}] }\n[[f]]\n[[f.g]]\nh = \"\\u0000\"\n")
	f.Add("\"\".\"x y\" = [[], [{}]]\na.b = {}\n[z.y]\n[z]\n")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parse(t.Context(), []byte(text))
		if err != nil {
			return
		}
		var before, after map[string]any
		if err := toml.Unmarshal([]byte(text), &before); err != nil {
			t.Fatal(err)
		}
		written, err := parsed.text()
		if err != nil {
			return
		}
		if err := toml.Unmarshal([]byte(written), &after); err != nil {
			t.Fatalf("%q is written as %q: %v", text, written, err)
		}
		if !strings.Contains(strings.ToLower(text), "nan") && !reflect.DeepEqual(before, after) {
			t.Fatalf("%q is written as %q", text, written)
		}
	})
}
