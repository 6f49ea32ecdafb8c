package server

import (
	"regexp"
	"testing"
)

// The version is a semantic version, whatever `git describe` prints.
func TestExecutorVersionIsSemantic(t *testing.T) {
	// Without a pre-release, which would count in comparisons.
	semantic := regexp.MustCompile(`^0\.166\.0\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*$`)
	for own, want := range map[string]string{
		"dev":              "0.166.0+tether.dev",
		"c132227":          "0.166.0+tether.c132227",
		"c132227-dirty":    "0.166.0+tether.c132227-dirty",
		"v1.2.3":           "0.166.0+tether.v1.2.3",
		"v1.2.3-4-gc1-x":   "0.166.0+tether.v1.2.3-4-gc1-x",
		"v0.0.0-1-a+dirty": "0.166.0+tether.v0.0.0-1-a-dirty",
		"a_b/ü c":          "0.166.0+tether.a-b---c",
		"..1..2.":          "0.166.0+tether.1.2",
		"":                 "0.166.0+tether",
	} {
		if got := executorVersion(own); got != want || !semantic.MatchString(got) {
			t.Errorf("%q: %s, want %s", own, got, want)
		}
	}
}
