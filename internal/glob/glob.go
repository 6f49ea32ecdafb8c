// Package glob matches text with patterns in which * matches any characters and ? exactly one. No other character is
// special, also not dots, slashes and brackets. Patterns for names of environment variables and of hosts use it.
// Patterns for files have more features and are in package sandbox.
package glob

import (
	"strings"
	"unicode/utf8"
)

// A Pattern matches whole texts.
//
// Matching never backtracks over a star. A part without ? is found in time
// linear in the text; a part with ? costs at most its own length for each position
// where it might begin.
type Pattern struct {
	first string   // the part before the first star
	inner []string // the parts between stars; each is searched for after the one before
	last  string   // the part after the last star
	exact bool     // no star: first is the whole pattern
}

// Compile prepares a pattern for many texts. Every text is a pattern.
func Compile(text string) Pattern {
	parts := strings.Split(text, "*")
	if len(parts) == 1 {
		return Pattern{first: parts[0], exact: true}
	}
	p := Pattern{first: parts[0], last: parts[len(parts)-1]}
	for _, part := range parts[1 : len(parts)-1] {
		if part != "" {
			p.inner = append(p.inner, part)
		}
	}
	return p
}

// Match reports whether p matches all of s.
func (p Pattern) Match(s string) bool {
	n := prefixLen(s, p.first)
	if n < 0 {
		return false
	}
	rest := s[n:]
	if p.exact {
		return rest == ""
	}
	// The last part is matched first; then the stars and inner parts match the rest.
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
