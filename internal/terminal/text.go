package terminal

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Width is how many cells of a terminal a text takes: none for a combining character, two for
// most Chinese, Japanese and Korean ones and for emoji.
func Width(text string) int { return uniseg.StringWidth(text) }

// Cut shortens a text to width cells of a terminal; 0 or less means any number.
func Cut(text string, width int) string {
	if width <= 0 || Width(text) <= width {
		return text
	}
	rest, room, state := text, width-1, -1 // the ellipsis takes a cell
	for {
		_, after, cells, next := uniseg.FirstGraphemeClusterInString(rest, state)
		if cells > room {
			return text[:len(text)-len(rest)] + "…"
		}
		rest, room, state = after, room-cells, next
	}
}

// Name returns a name for people. It quotes a name that could be misread or has control characters.
func Name(name string) string {
	for _, r := range name {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return strconv.Quote(name)
		}
	}
	return name
}

// Printable replaces characters that could move the cursor of a terminal: names and arguments come
// from other clients.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// Bytes formats a size with at most one decimal.
func Bytes(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%dB", n)
	}
	value, unit := float64(n), 0
	for value /= 1 << 10; value >= 1000 && unit < len(units)-1; unit++ {
		value /= 1 << 10
	}
	if value < 9.95 {
		return fmt.Sprintf("%.1f%ciB", value, units[unit])
	}
	return fmt.Sprintf("%.0f%ciB", value, units[unit])
}

// Span formats a time span: 1.2s, 45s, 3m20s, 5h10m, 3d4h.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// Plural returns a number and its noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
