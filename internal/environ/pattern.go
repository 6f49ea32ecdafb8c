package environ

import (
	"strings"
	"unicode"

	"github.com/tetherexec/tether/internal/glob"
)

// compile prepares a pattern for variable names, which are compared without regard to case.
func compile(text string) glob.Pattern { return glob.Compile(fold(text)) }

// matchesAny reports whether one of the patterns covers name.
func matchesAny(patterns []glob.Pattern, name string) bool {
	folded := fold(name)
	for _, p := range patterns {
		if p.Match(folded) {
			return true
		}
	}
	return false
}

func compileAll(texts []string) []glob.Pattern {
	patterns := make([]glob.Pattern, len(texts))
	for i, text := range texts {
		patterns[i] = compile(text)
	}
	return patterns
}

// fold maps strings that differ only in case to the same string.
func fold(s string) string { return strings.Map(foldRune, s) }

// foldRune is the smallest rune that differs from r only in case.
func foldRune(r rune) rune {
	if r < 'a' {
		return r // upper case, digits and most punctuation map to themselves
	}
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	return smallest
}
