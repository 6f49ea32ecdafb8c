package denial

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// absolutePaths returns the absolute paths that a line names, the last one first: those in quotes, or the words that are
// paths if no quotes are around one. The first word is the program that prints the line. A word that another word follows
// may be a part of a path with a space. Both are left out.
func absolutePaths(text string) []string {
	var names []string
	for _, q := range slices.Backward(quotedIn(text)) {
		if path.IsAbs(q.name) {
			names = append(names, q.name)
		}
	}
	if len(names) > 0 {
		return names
	}
	words := strings.Fields(text)
	for i, word := range slices.Backward(words) {
		name := strings.TrimRight(word, ".,;:)")
		goesOn := name == word && i+1 < len(words) && !strings.ContainsAny(words[i+1][:1], "/(:-=")
		if i > 0 && path.IsAbs(name) && !goesOn {
			names = append(names, name)
		}
	}
	return names
}

// relativePaths returns the relative paths that a line without absolute paths can mean, the likeliest first: those in
// quotes, the last one first, or the name between the last colon and the error, which begins at errorAt. The text before
// the first colon is the program that prints the line. No name with a space is returned.
func relativePaths(text string, errorAt int) []string {
	var names []string
	for _, q := range slices.Backward(quotedIn(text)) {
		if isRelative(q.name) {
			names = append(names, q.name)
		}
	}
	if len(names) > 0 {
		return names
	}
	parts := strings.Split(strings.TrimRight(text[:errorAt], " ("), ": ")
	last := len(parts) - 1
	parts[last] = strings.TrimSuffix(parts[last], ":")
	words := strings.Fields(parts[last])
	if last == 0 || len(words) == 0 || slices.ContainsFunc(words, path.IsAbs) { // the end of a path with a space
		return nil
	}
	// A sentence ends in any word. A word with a dot or a slash is a name, and dash ends its sentences about files with
	// the name: "sh: 1: cannot create NAME".
	name := words[len(words)-1]
	if !strings.ContainsAny(name, escapes) && (len(words) == 1 || strings.ContainsAny(name, "./") || isNumber(parts[last-1])) {
		names = append(names, name)
	}
	return names
}

func isRelative(name string) bool { return !path.IsAbs(name) && !strings.Contains(name, " ") }

func isNumber(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
}

// A quotation is a name in quotes, and its position including the quotes.
type quotation struct {
	name       string
	start, end int
}

// closers are the quotes that may end a name, by the quote that begins it.
var closers = map[rune]string{'\'': "'", '"': `"`, '`': "`'", '‘': "’", '“': "”"}

// escapes stand beside a quote where a shell needs several quotes to spell a
// name.
const escapes = `'"$\`

// quotedIn returns the names in quotes. An apostrophe within a word is not a
// quote, and a name of which only a part is in quotes is left out.
func quotedIn(text string) []quotation {
	var list []quotation
	previous, unclosed := ' ', "" // a quote without an end has no end later either
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if ends := closers[r]; ends != "" && !isWord(previous) && !strings.ContainsRune(escapes, previous) && !strings.ContainsRune(unclosed, r) {
			if n, width := closing(text[i+size:], ends); n > 0 {
				q := quotation{text[i+size : i+size+n], i, i + size + n + width}
				if next := text[q.end:]; next == "" || !strings.ContainsAny(next[:1], escapes) {
					list = append(list, q)
				}
				previous, i = r, q.end
				continue
			} else if n < 0 {
				unclosed += string(r)
			}
		}
		previous, i = r, i+size
	}
	return list
}

// closing finds the quote at the end of a name. It must not be followed by a
// letter or a digit.
func closing(text, ends string) (at, width int) {
	for i, r := range text {
		if strings.ContainsRune(ends, r) {
			width = utf8.RuneLen(r)
			if next, _ := utf8.DecodeRuneInString(text[i+width:]); !isWord(next) {
				return i, width
			}
		}
	}
	return -1, 0
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
