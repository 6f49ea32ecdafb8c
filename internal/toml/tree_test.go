package toml

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
		parsed, err := Parse(t.Context(), []byte(tt.in))
		if err != nil {
			t.Errorf("Parse(%q): %v", tt.in, err)
			continue
		}
		if got, err := parsed.Text(); err != nil || got != tt.out {
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
		_, err := Parse(t.Context(), []byte(in))
		e, ok := err.(*SyntaxError)
		if !ok || e.Line != want.line || e.Column != want.column || e.Message == "" {
			t.Errorf("Parse(%q) = %#v, want an error at %v", in, err, want)
		}
	}
}

func TestExcerptPointsAtTheError(t *testing.T) {
	_, err := Parse(t.Context(), []byte("a = 1\nb = [\n"))
	want := "TOML parse error at line 2, column 6\n  |\n2 | b = [\n  |      ^\n"
	if got := err.(*SyntaxError).Excerpt(); !strings.HasPrefix(got, want) {
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
	parsed, err := Parse(t.Context(), []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		if got, err := parsed.Keep(tt.paths).Text(); err != nil || got != tt.want {
			t.Errorf("keep(%q) = %q, %v, want %q", tt.paths, got, err, tt.want)
		}
	}
}

// FuzzWrite checks that a written document means the same as the one that was read.
func FuzzWrite(f *testing.F) {
	f.Add("a = 1\n[b.c]\nd = { e = [1, 2.5, '''x''', {}] }\n[[f]]\n[[f.g]]\nh = \"\\u0000\"\n")
	f.Add("\"\".\"x y\" = [[], [{}]]\na.b = {}\n[z.y]\n[z]\n")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(t.Context(), []byte(text))
		if err != nil {
			return
		}
		var before, after map[string]any
		if err := toml.Unmarshal([]byte(text), &before); err != nil {
			t.Fatal(err)
		}
		written, err := parsed.Text()
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

// Documents that test the rules about keys, numbers and dates. The library's decoder says which of them are TOML.
var ruled = []string{
	"", "a = 1\n", "a = 1\na = 2\n", "a.b = 1\na.c = 2\n", "a.b = 1\na.b.c = 2\n", "a.b.c = 1\na.b = 2\n", "a = 1\na.b = 2\n",
	"a = {}\na.b = 1\n", "a = {b = 1, b = 2}\n", "a = {b.c = 1, b.d = 2}\n", "a = {b = {}, b.c = 1}\n", "a = [{b = 1, b = 2}]\n",
	"a = [{b = 1}, {b = 2}]\n", "a = [[{b = 1, b.c = 2}]]\n", "x.y = {b = 1,\n b = 2}\n",
	"[a]\n[a]\n", "[a.b]\n[a]\n", "[a.b]\n[a]\n[a]\n", "[a]\n[a.b]\n", "[a.b]\n[a.b]\n", "[a.b]\n[a]\nb = 1\n", "[a.b]\n[a]\nb.c = 1\n",
	"a = 1\n[a]\n", "a = 1\n[a.b]\n", "a = {}\n[a]\n", "a = {}\n[a.b]\n", "a.b = 1\n[a]\n", "a.b = 1\n[a.c]\n", "a.b.c = 1\n[a.b]\n",
	"a.b.c = 1\n[a.b.d]\n[a.b.d.e]\n", "[a]\nb.c = 1\n[a.b]\n", "[a]\nb.c = 1\n[a.b.d]\n", "a = {b = {}}\n[a.b.c]\n",
	"[[a]]\n[[a]]\n", "[[a]]\nb = 1\n[[a]]\nb = 2\n", "[[a]]\n[a]\n", "[a]\n[[a]]\n", "[[a]]\n[a.b]\n[a.b]\n", "[[a]]\n[a.b]\n[[a]]\n[a.b]\n",
	"a = []\n[[a]]\n", "a = [{}]\n[[a]]\n", "a = [{}]\n[a.b]\n", "a = [1]\n[a.b]\n", "a = []\n[a.b]\n", "a.b = []\n[[a.b]]\n", "a.b = 1\n[[a]]\n", "[a.b]\n[[a]]\n",
	"[[a.b]]\n[a]\nb.c = 1\n", "[[a.b]]\n[a]\nb = 1\n", "[[a.b]]\n[a]\nc = 1\n[[a.b]]\n", "[[a]]\n[[a.b]]\n[[a.b.c]]\n[a.b.d]\n",
	"i = [0, +0, -0, 1_0, 0xff_FF, 0o7_7, 0b1_0]\n", "i = 9223372036854775807\n", "i = 9223372036854775808\n", "i = -9223372036854775808\n",
	"i = -9223372036854775809\n", "i = 0x7fffffffffffffff\n", "i = 0x8000000000000000\n", "i = 0o777777777777777777777\n", "i = 0o1000000000000000000000\n",
	"i = 012\n", "i = +0x1\n", "i = 1__0\n", "i = 0b2\n", "i = [1,\n99999999999999999999]\n",
	"f = [1.5, -1_0.2_5e+1_0, inf, +inf, -inf, nan, +nan, -nan, 1e308, 1e-999, 0e1]\n", "f = 1e309\n", "f = 01.5\n", "f = 1.e2\n", "f = {x = -1e9_99}\n",
	"d = [2024-02-29, 2000-02-29, 0000-02-29, 0001-01-01, 9999-12-31]\n", "d = 2023-02-29\n", "d = 1900-02-29\n", "d = 2023-13-01\n", "d = 2023-00-01\n",
	"d = 2023-01-00\n", "d = 2023-04-31\n", "d = 2023-1-1\n", "d = 2023-01-01-\n", "d = 2023-01-01T\n", "d = 2023-01-0112\n",
	"t = [00:00, 23:59:59, 07:32:00.1, 07:32:00.1234567890123]\n", "t = 24:00:00\n", "t = 07:60:00\n", "t = 07:32:60\n", "t = 07:32:00.\n", "t = 07:32.5\n",
	"t = 07:3\n", "t = 07:32:0\n", "t = 07:32:00Z\n", "t = 07:32:\n",
	"m = [2023-01-01T07:32, 2023-01-01t07:32:00, 2023-01-01 07:32:00.5]\n", "m = 2023-01-01 7:32:00\n", "m = 2023-01-01T7:32:00Z\n", "m = 2023-01-01  07:32\n",
	"m = 2023-02-30T07:32:00\n", "m = 2023-01-01T25:00:00\n", "m = 2023-01-01TT07:32\n",
	"z = [2023-01-01T07:32:00Z, 2023-01-01 07:32z, 2023-01-01T07:32:00.5+23:59, 2023-01-01T07:32:00-00:00]\n", "z = 2023-01-01T07:32:00+24:00\n",
	"z = 2023-01-01T07:32:00+01:60\n", "z = 2023-01-01T07:32:00+1:00\n", "z = 2023-01-01T07:32:00+0100\n", "z = 2023-01-01T07:32:00Z+01:00\n", "z = 2023-01-01T07:32:00ZZ\n",
	"a = \"\\q\"\n", "a = 'x\n", "= 1\n", "a\n", "[a\n", "a = 1 b = 2\n", "a = \"\xff\"\n", "# \x00\n", "a = [1 2]\n", "a = {,}\n", "\r\na = 1\r\n", "a = tru\n",
}

func TestRulesAreTheLibrarys(t *testing.T) {
	for _, text := range ruled {
		sameRules(t, text)
	}
}

// FuzzRules compares the rules with those of the library's decoder.
func FuzzRules(f *testing.F) {
	for _, text := range ruled {
		f.Add(text)
	}
	f.Fuzz(sameRules)
}

func sameRules(t *testing.T, text string) {
	var tree map[string]any
	libraryError := toml.Unmarshal([]byte(text), &tree)
	_, err := Parse(t.Context(), []byte(text))
	if err == errNesting || err == errKeys || err == errValues {
		return
	}
	if (err == nil) != (libraryError == nil) {
		t.Fatalf("%q: %v, and the library says %v", text, err, libraryError)
	}
	decode, ok := libraryError.(*toml.DecodeError)
	if !ok {
		return
	}
	e, line, column := err.(*SyntaxError), 0, 0
	line, column = decode.Position()
	if e.Message == badMoment {
		column = e.Column // the library points into the value
	}
	if e.Line != line || e.Column != column {
		t.Fatalf("%q: %v at %d:%d, and the library says %v at %d:%d", text, err, e.Line, e.Column, libraryError, line, column)
	}
}
