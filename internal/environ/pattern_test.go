package environ

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPatternMatchesWholeNames(t *testing.T) {
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{"PATH", "PATH", true},
		{"PATH", "path", true},
		{"path", "PATH", true},
		{"PATH", "PATHS", false},
		{"PATH", "MYPATH", false},
		{"", "", true},
		{"", "A", false},
		{"*", "", true},
		{"*", "ANYTHING", true},
		{"**", "X", true},
		{"*KEY*", "monkey", true},
		{"*KEY*", "KEY", true},
		{"*KEY*", "KE_Y", false},
		{"A?C", "ABC", true},
		{"A?C", "AC", false},
		{"A?C", "A?C", true},
		{"?", "", false},
		{"?", "é", true},
		{"??", "é", false},
		{"É*", "école", true},
		{"A*B", "AB", true},
		{"A*B", "A", false},
		{"A*A", "A", false}, // one character cannot match both ends
		{"A*A", "AA", true},
		{"*A?B*", "xxAABB", true},
		{"*A?B*C", "AxBAxBC", true},
		{"*?A", "A", false},
		{"AB*BA", "ABA", false},
		{"[A]", "A", false},
		{"[A]", "[a]", true},
		{"A.C", "ABC", false},
		{"A\\*", "A\\bc", true},
		{"*_A_*_B_*", "x_A_B_", false},
		{"*_A_*_B_*", "x_A__B_", true},
	}
	for _, test := range tests {
		if got := compile(test.pattern).Match(fold(test.name)); got != test.want {
			t.Errorf("pattern %q, name %q: got %v, want %v", test.pattern, test.name, got, test.want)
		}
	}
}

// FuzzPattern: a pattern matches exactly what the equivalent regular expression
// matches.
func FuzzPattern(f *testing.F) {
	f.Add("*KEY*", "monkey")
	f.Add("A?C*", "abcd")
	f.Add("*a*?b*", "xaab")
	f.Add("ſ*", "STRASSE")
	f.Fuzz(func(t *testing.T, text, name string) {
		if !utf8.ValidString(text) || !utf8.ValidString(name) || len(text) > 200 || len(name) > 1000 {
			t.Skip("the wire carries UTF-8, and regexp is slow")
		}
		quoted := regexp.QuoteMeta(text)
		quoted = strings.ReplaceAll(quoted, `\*`, `.*`)
		quoted = strings.ReplaceAll(quoted, `\?`, `.`)
		want := regexp.MustCompile(`(?is)\A` + quoted + `\z`).MatchString(name)
		if got := compile(text).Match(fold(name)); got != want {
			t.Errorf("pattern %q, name %q: got %v, want %v", text, name, got, want)
		}
	})
}
