package sandbox

import (
	"strings"
	"unicode/utf8"
)

// A Glob matches paths below a directory. It has one pattern for each alternative of
// its braces. Package glob cannot do this: here * and ? stop at slashes, and there are
// **, classes, escapes and braces.
type Glob []globPattern

// A globPattern matches relative paths, with the meaning that ignore files
// give to patterns: ** stands for any number of directories, a pattern without
// a slash matches in every directory, one that ends in a slash only
// directories.
type globPattern struct {
	parts   []string
	dirOnly bool
}

// ParseGlob reads a pattern; {a,b} gives one result per alternative. It
// reports false if there are too many.
func ParseGlob(pattern string) (Glob, bool) {
	var patterns Glob
	for _, alternative := range expandBraces([]string{pattern}) {
		var p globPattern
		text := strings.TrimRight(alternative, "/")
		p.dirOnly = text != alternative
		if !strings.Contains(text, "/") {
			text = "**/" + text
		}
		for _, part := range components(text) {
			double := part == "**"
			if part == "" || double && len(p.parts) > 0 && p.parts[len(p.parts)-1] == "**" {
				continue // a ** beside another adds nothing
			}
			p.parts = append(p.parts, part)
		}
		if n := len(p.parts); n > 0 && p.parts[n-1] == "**" {
			p.parts = append(p.parts, "*") // at the end ** means everything below, not the directory itself
		}
		patterns = append(patterns, p)
	}
	return patterns, len(patterns) > 0
}

// Match reports whether the glob matches a path, given by its components. maybeDir says that
// it is a directory, or could be one.
func (g Glob) Match(name []string, maybeDir bool) bool {
	for _, p := range g {
		if (maybeDir || !p.dirOnly) && p.match(name) {
			return true
		}
	}
	return false
}

// expandBraces replaces the first group of each pattern until no groups are
// left; nil if there are too many alternatives.
func expandBraces(todo []string) []string {
	var done []string
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		open, end, commas := findBraces(p)
		if open < 0 {
			done = append(done, p)
		} else {
			from := open + 1
			for _, to := range append(commas, end) {
				todo = append(todo, p[:open]+p[from:to]+p[end+1:])
				from = to + 1
			}
		}
		if len(done)+len(todo) > maxGlobBraces {
			return nil
		}
	}
	return done
}

// findBraces finds the first group that closes: where it opens and ends, and
// its own commas. Without one it returns -1.
func findBraces(p string) (open, end int, commas []int) {
	open = -1
	depth := 0
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '[':
			if n := classEnd(p[i:]); n > 0 {
				i += n - 1
			}
		case '{':
			if depth == 0 {
				open, commas = i, nil
			}
			depth++
		case ',':
			if depth == 1 {
				commas = append(commas, i)
			}
		case '}':
			if depth == 1 {
				return open, i, commas
			}
			depth = max(depth-1, 0)
		}
	}
	return -1, 0, nil
}

// match reports whether the pattern matches a path, given by its components.
func (g globPattern) match(name []string) bool {
	p, n := 0, 0
	star, mark := -1, 0 // the last **, and the component to give it next
	for n < len(name) {
		switch {
		case p < len(g.parts) && g.parts[p] == "**":
			star, mark = p, n
			p++
		case p < len(g.parts) && matchName(g.parts[p], name[n]):
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	for p < len(g.parts) && g.parts[p] == "**" {
		p++
	}
	return p == len(g.parts)
}

// matchName matches one component: * any text, ? one character, [a-z] [!a-z]
// one of a class, \ makes the next character literal.
func matchName(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, n
			p++
			continue
		}
		if used, size, ok := matchOne(pattern[p:], name[n:]); ok {
			p += used
			n += size
			continue
		}
		if star < 0 {
			return false
		}
		_, size := utf8.DecodeRuneInString(name[mark:])
		mark += size
		p, n = star+1, mark
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchOne matches the first character of a name, which is not empty. It
// returns how much of both it used.
func matchOne(pattern, name string) (used, size int, ok bool) {
	if pattern == "" {
		return 0, 0, false
	}
	r, size := utf8.DecodeRuneInString(name)
	switch pattern[0] {
	case '?':
		return 1, size, true
	case '[':
		if end := classEnd(pattern); end > 0 {
			return end, size, inClass(pattern[1:end-1], r)
		}
	case '\\':
		if len(pattern) > 1 {
			_, n := utf8.DecodeRuneInString(pattern[1:])
			return 1 + n, size, pattern[1:1+n] == name[:size]
		}
	}
	_, n := utf8.DecodeRuneInString(pattern)
	return n, size, pattern[:n] == name[:size]
}

// classEnd returns the length of the class that a pattern starts with, 0 if it
// is not closed: then its bracket is literal. A ] right after the start is a
// member.
func classEnd(pattern string) int {
	i := 1
	if i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^') {
		i++
	}
	for first := true; i < len(pattern); i++ {
		switch {
		case pattern[i] == '/':
			return 0
		case pattern[i] == ']' && !first:
			return i + 1
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
		}
		first = false
	}
	return 0
}

// inClass reports whether a class without its brackets has a character.
func inClass(class string, r rune) bool {
	negated := class != "" && (class[0] == '!' || class[0] == '^')
	if negated {
		class = class[1:]
	}
	next := func() rune {
		if class[0] == '\\' && len(class) > 1 {
			class = class[1:]
		}
		c, n := utf8.DecodeRuneInString(class)
		class = class[n:]
		return c
	}
	found := false
	for class != "" {
		low := next()
		high := low
		if len(class) > 1 && class[0] == '-' {
			class = class[1:]
			high = next()
		}
		found = found || low <= r && r <= high
	}
	return found != negated
}
