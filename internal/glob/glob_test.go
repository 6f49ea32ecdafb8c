package glob

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Match agrees with a slow and obvious definition for short patterns.
func TestMatchAgainstDefinition(t *testing.T) {
	var slow func(p, s string) bool
	slow = func(p, s string) bool {
		if p == "" {
			return s == ""
		}
		if p[0] == '*' {
			return slow(p[1:], s) || s != "" && slow(p, s[1:])
		}
		return s != "" && (p[0] == '?' || p[0] == s[0]) && slow(p[1:], s[1:])
	}
	rapid.Check(t, func(t *rapid.T) {
		p, s := rapid.StringMatching(`[ab.*?]{0,8}`).Draw(t, "pattern"), rapid.StringMatching(`[ab.]{0,8}`).Draw(t, "text")
		if got, want := Compile(p).Match(s), slow(p, s); got != want {
			t.Fatalf("%q matches %q: %v", p, s, got)
		}
	})
}

// At these sizes a matcher that backtracks would run for hours.
func TestMatchIsLinearInTheText(t *testing.T) {
	const size = 1 << 20
	name := strings.Repeat("a", size)
	patterns := []string{
		"*" + strings.Repeat("a", size/2) + "b*",
		strings.Repeat("*a", size/2) + "*b*",
		strings.Repeat("a*", size/2) + "b",
		strings.Repeat("*", size) + "b",
		strings.Repeat("*?", size/2) + "*b",
	}
	done := make(chan struct{})
	go func() { // ends with the loop; the test fails before it leaks
		defer close(done)
		for _, text := range patterns {
			if Compile(text).Match(name) {
				t.Errorf("pattern %.20s… matches a name without b", text)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("matching did not end within a minute")
	}
}
