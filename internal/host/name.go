package host

import (
	"errors"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// MaxName is the length of the longest name that can be looked up, in bytes, and maxLabel of its longest part (RFC 1035).
const (
	MaxName  = 253
	maxLabel = 63
)

// Names beyond ASCII are mapped by UTS 46, as programs do before they look a name up. All spellings of a name (composed
// or not, full-width or not, upper or lower case) have one form in ASCII. Programs that still follow IDNA 2003 map four
// characters differently, such as ß to ss.
var (
	current = idna.New(mapping(idna.Transitional(false))...)
	older   = idna.New(mapping(idna.Transitional(true))...)
)

func mapping(which idna.Option) []idna.Option {
	return []idna.Option{
		idna.MapForLookup(), idna.BidiRule(), which,
		idna.CheckHyphens(false), idna.StrictDomainName(false), // callers have their own rules for these
	}
}

var errUTF8 = errors.New("not UTF-8")

// ToASCII maps a name, which may be beyond ASCII, to the form in which it is looked up. The result may be an address, and
// may have characters that are not allowed in names: the caller checks that.
func ToASCII(name string) (string, error) { return toASCII(current, name) }

// ToASCII2003 is ToASCII by the rules of IDNA 2003.
func ToASCII2003(name string) (string, error) { return toASCII(older, name) }

func toASCII(profile *idna.Profile, name string) (string, error) {
	if !utf8.ValidString(name) {
		return "", errUTF8
	}
	return profile.ToASCII(name)
}

// IsThisMachine reports whether a name, in lower case, or an address means this machine: localhost, a name below it, a
// loopback address, or the unspecified address.
func IsThisMachine(name string) bool {
	if a, err := netip.ParseAddr(name); err == nil {
		a = a.Unmap()
		return a.IsLoopback() || a.IsUnspecified()
	}
	name = strings.TrimSuffix(name, ".")
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// IsASCII reports whether all characters of s are ASCII.
func IsASCII(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c >= utf8.RuneSelf })
}

// ValidName reports whether s, in lower case, is a name that can be looked up and does not look like an address.
// Underscores are allowed, because they are in use.
func ValidName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !validLabel(label) {
			return false
		}
	}
	return !EndsInNumber(s)
}

func validLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}
