package environ

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A pattern matches whole variable names without regard to case: * stands for
// any run of characters, ? for exactly one, nothing else is special.
//
// Matching never backtracks over a star. A stretch without ? is found in time
// linear in the name; one with ? costs at most its own length for each place
// where it might begin.
type pattern struct {
	first string   // what the name begins with
	inner []string // found one after the other, each as early as possible
	last  string   // what the name ends with
	exact bool     // no star: first is the whole pattern
}

// compile prepares a pattern for many names.
func compile(text string) pattern {
	parts := strings.Split(fold(text), "*")
	if len(parts) == 1 {
		return pattern{first: parts[0], exact: true}
	}
	p := pattern{first: parts[0], last: parts[len(parts)-1]}
	for _, part := range parts[1 : len(parts)-1] {
		if part != "" {
			p.inner = append(p.inner, part)
		}
	}
	return p
}

// matches reports whether p covers all of name, which must be folded.
func (p pattern) matches(name string) bool {
	n := prefixLen(name, p.first)
	if n < 0 {
		return false
	}
	rest := name[n:]
	if p.exact {
		return rest == ""
	}
	// The end is taken off first: what is left over belongs to the stars.
	cut := tailStart(rest, p.last)
	if cut < 0 || prefixLen(rest[cut:], p.last) < 0 {
		return false
	}
	rest = rest[:cut]
	for _, part := range p.inner {
		end := findEnd(rest, part)
		if end < 0 {
			return false
		}
		rest = rest[end:]
	}
	return true
}

// prefixLen is the number of bytes of s that part matches at its beginning, or
// -1 if it does not.
func prefixLen(s, part string) int {
	n := 0
	for _, want := range part {
		if n == len(s) {
			return -1
		}
		got, size := utf8.DecodeRuneInString(s[n:])
		if want != '?' && want != got {
			return -1
		}
		n += size
	}
	return n
}

// tailStart is where the last characters of s begin, as many as part has, or
// -1 if s is shorter.
func tailStart(s, part string) int {
	at := len(s)
	for range part {
		if at == 0 {
			return -1
		}
		_, size := utf8.DecodeLastRuneInString(s[:at])
		at -= size
	}
	return at
}

// findEnd is where the first match of part in s ends, or -1.
func findEnd(s, part string) int {
	if !strings.Contains(part, "?") {
		at := strings.Index(s, part)
		if at < 0 {
			return -1
		}
		return at + len(part)
	}
	for at := range s {
		if n := prefixLen(s[at:], part); n >= 0 {
			return at + n
		}
	}
	return -1
}

// matchesAny reports whether one of the patterns covers name.
func matchesAny(patterns []pattern, name string) bool {
	folded := fold(name)
	for _, p := range patterns {
		if p.matches(folded) {
			return true
		}
	}
	return false
}

func compileAll(texts []string) []pattern {
	patterns := make([]pattern, len(texts))
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
		return r // upper case, digits and most punctuation stand for themselves
	}
	smallest := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		smallest = min(smallest, next)
	}
	return smallest
}
