package unifiedexec

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// bytesPerToken is the estimate on which all limits are based.
const bytesPerToken = 4

func tokens(bytes int64) int64 { return (bytes + bytesPerToken - 1) / bytesPerToken }

// decode converts bytes to text. Each incomplete or invalid character becomes one U+FFFD.
func decode(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	out.Grow(len(b) + len(b)/8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = brokenLength(b)
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}

// brokenLength is how many bytes at the start of b, which is no valid character, count as one
// broken character.
func brokenLength(b []byte) int {
	n := 1
	for n < len(b) && n < utf8.UTFMax && !utf8.FullRune(b[:n]) {
		n++
	}
	if n > 1 && utf8.FullRune(b[:n]) { // the last byte does not belong to it
		n--
	}
	return n
}

// A limit is how many bytes of text a result may have, and the unit of the mark for the missing
// part.
type limit struct {
	bytes    int
	inTokens bool
}

// truncate cuts the middle out of a text that is too long. original is the number of tokens of
// the whole output; omission is the mark in text for output that was not kept.
func truncate(text string, l limit, original int64, omission string) string {
	if len(text) <= l.bytes {
		return text
	}
	first, last := cutMiddle(text, l.bytes)
	head, tail := text[:first], text[last:]
	mark := fmt.Sprintf("…%d chars truncated…", utf8.RuneCountInString(text[first:last]))
	if l.inTokens {
		mark = fmt.Sprintf("…%d tokens truncated…", tokens(int64(len(text)-l.bytes)))
	}
	about := fmt.Sprintf("Total output lines: %d", countLines(text))
	if omission != "" && !strings.Contains(head, omission) && !strings.Contains(tail, omission) {
		about = omission
	}
	return fmt.Sprintf("Warning: truncated output (original token count: %d)\n%s\n\n%s%s%s", original, about, head, mark, tail)
}

// markMiddle joins the beginning and the end of an output, between which bytes were lost. If they
// are too long, it cuts the middle out. One mark stands for all missing bytes.
func markMiddle(head, tail string, lost int64, l limit, mark func(missing int64) string) string {
	text := head + tail
	first, last := len(head), len(head)
	if len(text) > l.bytes {
		first, last = cutMiddle(text, l.bytes)
		if lost > 0 { // the cut has to include the place where bytes were lost
			first, last = min(first, len(head)), max(last, len(head))
		}
	}
	missing := lost + int64(last-first)
	if missing == 0 {
		return text
	}
	before := text[:first]
	if before != "" && !strings.HasSuffix(before, "\n") {
		before += "\n"
	}
	return before + mark(tokens(missing)) + "\n" + text[last:]
}

// cutMiddle returns where the middle of a text begins and ends, without which the text has
// at most so many bytes. It divides no character.
func cutMiddle(text string, most int) (first, last int) {
	first = most / 2
	last = len(text) - (most - first)
	for first > 0 && !utf8.RuneStart(text[first]) {
		first--
	}
	for last < len(text) && !utf8.RuneStart(text[last]) {
		last++
	}
	return first, last
}

// countLines counts lines; the last one need not be terminated.
func countLines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}
