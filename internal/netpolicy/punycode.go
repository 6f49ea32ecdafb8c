package netpolicy

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// asciiName returns a name with the labels that are not ASCII in the xn-- form that
// requests have. Labels with wildcards stay as they are, and match nothing.
func asciiName(s string) string {
	if isASCII(s) {
		return s
	}
	labels := strings.Split(s, ".")
	for i, label := range labels {
		if !isASCII(label) && !strings.ContainsAny(label, "*?") && utf8.ValidString(label) {
			labels[i] = "xn--" + punycode([]rune(label))
		}
	}
	return strings.Join(labels, ".")
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c >= utf8.RuneSelf })
}

// punycode encodes a label as RFC 3492 has it. Patterns are short (MaxPatternLength), so
// nothing overflows.
func punycode(label []rune) string {
	const first, base, tmin, tmax = 128, 36, 1, 26
	var out []byte
	for _, c := range label {
		if c < first {
			out = append(out, byte(c))
		}
	}
	basic := len(out)
	if basic > 0 {
		out = append(out, '-')
	}
	bias, delta := 72, 0
	for n, done := rune(first), basic; done < len(label); n++ {
		next := slices.MinFunc(label, func(a, b rune) int { return int(distance(a, n) - distance(b, n)) })
		delta += int(next-n) * (done + 1)
		n = next
		for _, c := range label {
			if c < n {
				delta++
			}
			if c != n {
				continue
			}
			q := delta
			for k := base; ; k += base {
				t := min(max(k-bias, tmin), tmax)
				if q < t {
					out = append(out, digit(q))
					break
				}
				out = append(out, digit(t+(q-t)%(base-t)))
				q = (q - t) / (base - t)
			}
			bias = adapt(delta, done+1, done == basic)
			delta, done = 0, done+1
		}
		delta++
	}
	return string(out)
}

// distance orders the code points from n on before all others.
func distance(c, n rune) rune {
	if c < n {
		return utf8.MaxRune + 1
	}
	return c - n
}

func digit(n int) byte { return "abcdefghijklmnopqrstuvwxyz0123456789"[n] }

// adapt is the function of the same name in RFC 3492, section 6.1.
func adapt(delta, points int, initial bool) int {
	if delta /= 2; initial {
		delta /= 350
	}
	delta += delta / points
	k := 0
	for ; delta > 35*26/2; k += 36 {
		delta /= 35
	}
	return k + 36*delta/(delta+38)
}
