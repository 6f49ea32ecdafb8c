// Package shellword writes words so that a POSIX shell reads them as they are.
package shellword

import "strings"

// Quote puts a text in quotes.
func Quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Join writes the words of a command, with quotes where they are needed.
func Join(words []string) string {
	written := make([]string, len(words))
	for i, word := range words {
		if word == "" || strings.ContainsFunc(word, needsQuotes) {
			word = Quote(word)
		}
		written[i] = word
	}
	return strings.Join(written, " ")
}

func needsQuotes(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:=@%+,", r))
}
