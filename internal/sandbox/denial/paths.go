package denial

import (
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// wordSet returns a set of words that is made with its first use: most programs that are started explain no denial.
func wordSet(words string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := make(map[string]bool)
		for w := range strings.FieldsSeq(words) {
			set[w] = true
		}
		return set
	})
}

// The words with which messages lead up to a path. At least one of them has to
// be a verb.
var (
	verbs = wordSet(`access accessing append changing chmod chown copy copying create creating delete link lock make mkdir
		move open opening overwrite read reading remove rename rmdir save setting stat symlink touch truncate unlink
		update write writing`)
	fillers = wordSet(`a can't cannot config could couldn't dir directory error failed file for hard in into link log new not object
		of output ownership permissions regular symbolic temporary the times to tree unable via while work`)

	// followers may come between a path and the end of the message.
	followers = wordSet(`-> => and as at because failed for from in is to with`)

	// pathTools name a path after their own name without further words.
	pathTools = wordSet(`ash bash busybox cat chmod chown cp dash dd fish install ksh ln ls mkdir mv rm rmdir sh tar tee touch
		truncate zsh`)

	// labels look like a path in the same place.
	labels = wordSet(`debug err error fail failed failure fatal info note panic warn warning`)
)

// pathsIn returns the paths that a message names before or after the error, the
// most likely first. Relative ones have to be in a place where programs put a
// path, because any word could be one.
func pathsIn(before, after string) []string {
	if names := pathsAfter(before, after); len(names) > 0 {
		return names
	}
	parts := strings.Split(strings.TrimRight(before, " \t:(,"), ": ")
	described := false // a part behind says what was done, but not to what
	for i := len(parts) - 1; i >= 0; i-- {
		program := ""
		if i > 0 {
			program = parts[i-1]
		}
		named := described || namesPathNext(program) || len(parts) == 1
		names := pathsInPart(strings.TrimSpace(parts[i]), i == 0, named)
		if len(names) > 0 {
			return names
		}
		lead, rest := splitLead(parts[i])
		described = lead && rest == ""
	}
	return nil
}

// pathsAfter knows the forms "error: 'path'", "error, open 'path'", "error (os
// error 1) at path "path"" and the shell's "error: path". Of two, with an arrow,
// the target comes first.
func pathsAfter(before, after string) []string {
	if rest, ok := strings.CutPrefix(after, " (os error "); ok {
		_, after, _ = strings.Cut(rest, ")")
	}
	quoted := quotedIn(after)
	intro, direct := strings.CutPrefix(after, ": ")
	if len(quoted) > 0 {
		lead := after[:quoted[0].start]
		if strings.HasPrefix(lead, ":") || strings.HasPrefix(lead, ",") || strings.HasPrefix(lead, " at ") {
			if len(strings.Fields(strings.Trim(lead, ":,"))) <= 2 {
				names := namesOf(quoted)
				slices.Reverse(names)
				return names
			}
		}
		return nil
	}
	if direct && (path.IsAbs(intro) || !strings.Contains(strings.TrimSpace(before), " ") && isName(intro)) {
		return []string{intro}
	}
	return absoluteWords(after)
}

// pathsInPart returns the paths in one part of a message; parts are separated by
// colons. The first part may be the name of the program. Named tells that a path
// may stand here without words that lead up to it.
func pathsInPart(part string, first, named bool) []string {
	if quoted := quotedIn(part); len(quoted) > 0 {
		var names []string
		for _, q := range slices.Backward(quoted) {
			if path.IsAbs(q.name) || q.end-q.start == len(part) || mentionsVerb(part[:q.start]) {
				names = append(names, q.name)
			}
		}
		return names
	}
	if path.IsAbs(part) {
		if first && (!named || isProgram(part)) {
			return nil
		}
		if !strings.Contains(part, " /") {
			return []string{part}
		}
	}
	lead, rest := splitLead(part)
	switch {
	case lead && path.IsAbs(rest) && !strings.Contains(rest, " "):
		return []string{rest}
	case lead && isName(rest):
		return []string{rest}
	case !lead && !first && isName(rest) && (named || strings.ContainsAny(rest, "/.")):
		return []string{rest}
	}
	return absoluteWords(part)
}

// splitLead takes away the words that lead up to a path, and tells whether there
// is a verb among them.
func splitLead(part string) (lead bool, rest string) {
	rest = strings.TrimSpace(part)
	for rest != "" {
		word, next, _ := strings.Cut(rest, " ")
		w := lowerASCII(word)
		if !verbs()[w] && !fillers()[w] {
			break
		}
		lead = lead || verbs()[w]
		rest = strings.TrimSpace(next)
	}
	return lead, rest
}

func mentionsVerb(text string) bool {
	for word := range strings.FieldsSeq(lowerASCII(text)) {
		if verbs()[strings.TrimSuffix(word, "()")] {
			return true
		}
	}
	return false
}

// namesPathNext reports whether a part is what shells and file tools print before
// a path: their name, or a line number.
func namesPathNext(part string) bool {
	part = strings.TrimPrefix(strings.TrimSpace(part), "line ")
	return isNumber(part) || pathTools()[strings.TrimPrefix(path.Base(part), "-")]
}

// isProgram reports whether an absolute path looks like one of a program.
func isProgram(name string) bool {
	switch path.Base(path.Dir(name)) {
	case "bin", "sbin", "libexec":
		return true
	}
	return false
}

// isName reports whether a word without quotes can be a relative path.
func isName(word string) bool {
	w := lowerASCII(word)
	switch {
	case word == "" || path.IsAbs(word) || strings.ContainsAny(word, " \t()[]{}<>@~*\"'`=,;"):
		return false
	case strings.Contains(word, "://") || isNumber(word) || labels()[w]:
		return false
	case strings.HasSuffix(w, "error") || strings.HasSuffix(w, "exception"):
		return false
	}
	return !isErrorName(word)
}

// isErrorName is for the likes of EROFS.
func isErrorName(word string) bool {
	return len(word) > 3 && word[0] == 'E' && strings.ToUpper(word) == word && !strings.ContainsAny(word, "./_-")
}

func isNumber(word string) bool {
	return word != "" && strings.Trim(word, "0123456789") == ""
}

// absoluteWords returns the words of text that are absolute paths, the last one
// first, unless they seem to go on behind a space.
func absoluteWords(text string) []string {
	var names []string
	words := strings.Fields(text)
	for i, w := range slices.Backward(words) {
		if !path.IsAbs(w) {
			continue
		}
		if i+1 < len(words) {
			next := words[i+1]
			if !followers()[lowerASCII(next)] && next[0] != '/' && next[0] != '(' {
				continue
			}
		}
		names = append(names, strings.TrimRight(w, ".,;:)"))
	}
	return names
}

// A quotation is a name in quotes, and where it is with them.
type quotation struct {
	name       string
	start, end int
}

func namesOf(list []quotation) []string {
	var names []string
	for _, q := range list {
		names = append(names, q.name)
	}
	return names
}

// closers are the quotes that may end what a quote begins.
var closers = map[rune]string{'\'': "'", '"': `"`, '`': "`'", '‘': "’", '“': "”"}

// escapes are beside a quote where a shell would need several to spell a name.
const escapes = `'"$\`

// quotedIn returns what is in quotes. An apostrophe within a word is none, and a
// name of which only a part is in quotes is left out.
func quotedIn(text string) []quotation {
	var list []quotation
	previous, unclosed := ' ', "" // a quote that was not closed once is not closed later
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

// closing finds the quote at the end of a name, which no word follows at once.
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
