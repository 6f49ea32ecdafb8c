package toml

import (
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"
)

// scalarProblem says why a value is not what its kind promises, or "". The parser has checked the characters of numbers
// and booleans, but only the kind of dates and times.
func scalarProblem(kind unstable.Kind, text string) string {
	switch kind {
	case unstable.Integer:
		if _, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64); err != nil {
			return "the number does not fit in 64 bits"
		}
	case unstable.Float:
		special := strings.HasSuffix(text, "inf") || strings.HasSuffix(text, "nan")
		if _, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64); err != nil && !special {
			return "the number is too large"
		}
	case unstable.LocalDate, unstable.LocalTime, unstable.LocalDateTime, unstable.DateTime:
		if rest, ok := cutMoment(kind, text); !ok || rest != "" {
			return badMoment
		}
	}
	return ""
}

const badMoment = "not a valid date or time"

// Functions that cut something off the front of a text return the rest, and whether the text had it.

func cutMoment(kind unstable.Kind, text string) (rest string, ok bool) {
	switch kind {
	case unstable.LocalDate:
		return cutDate(text)
	case unstable.LocalTime:
		return cutTime(text)
	}
	rest, ok = cutDate(text)
	if !ok || rest == "" || !strings.Contains("Tt ", rest[:1]) {
		return rest, false
	}
	if rest, ok = cutTime(rest[1:]); ok && kind == unstable.DateTime {
		return cutZone(rest)
	}
	return rest, ok
}

func cutDate(text string) (rest string, ok bool) {
	if !fits(text, "0000-00-00") {
		return text, false
	}
	_, err := time.Parse(time.DateOnly, text[:len(time.DateOnly)])
	return text[len(time.DateOnly):], err == nil
}

// cutTime cuts off a time of the day. The seconds may be missing, or have a fraction.
func cutTime(text string) (rest string, ok bool) {
	if !fits(text, "00:00") || text[:2] > "23" || text[3:5] > "59" {
		return text, false
	}
	rest = text[5:]
	if !strings.HasPrefix(rest, ":") {
		return rest, true
	}
	if !fits(rest, ":00") || rest[1:3] > "59" {
		return rest, false
	}
	rest = rest[3:]
	if !strings.HasPrefix(rest, ".") {
		return rest, true
	}
	fraction := rest[1:]
	rest = strings.TrimLeft(fraction, "0123456789")
	return rest, len(rest) < len(fraction)
}

func cutZone(text string) (rest string, ok bool) {
	switch {
	case strings.HasPrefix(text, "Z"), strings.HasPrefix(text, "z"):
		return text[1:], true
	case fits(text, "+00:00"), fits(text, "-00:00"):
		return text[6:], text[1:3] <= "23" && text[4:6] <= "59"
	}
	return text, false
}

// fits reports whether a text begins with a pattern, in which 0 stands for any digit.
func fits(text, pattern string) bool {
	if len(text) < len(pattern) {
		return false
	}
	for i := range len(pattern) {
		c := text[i]
		if pattern[i] == '0' && (c < '0' || c > '9') || pattern[i] != '0' && c != pattern[i] {
			return false
		}
	}
	return true
}
