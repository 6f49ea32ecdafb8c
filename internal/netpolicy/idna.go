package netpolicy

import (
	"errors"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Names beyond ASCII are mapped by UTS 46, as programs do before they look a name up:
// composed or not, full-width or not, in any case, each has one form in ASCII.
//
// Programs that still follow IDNA 2003 map four characters to others (ß to ss, for one).
var (
	current = idna.New(mapping(idna.Transitional(false))...)
	older   = idna.New(mapping(idna.Transitional(true))...)
)

func mapping(which idna.Option) []idna.Option {
	return []idna.Option{
		idna.MapForLookup(), idna.BidiRule(), which,
		idna.CheckHyphens(false), idna.StrictDomainName(false), // validName has our own rules for these
	}
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c >= utf8.RuneSelf })
}

// asciiName maps a name. It may become an address.
func asciiName(s string) (string, error) { return mapName(current, s) }

func mapName(profile *idna.Profile, s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", errors.New("not UTF-8")
	}
	name, err := profile.ToASCII(s)
	if err != nil {
		return "", err
	}
	name = strings.TrimSuffix(name, ".")
	if _, ok := parseIPv4(name); !ok && !validName(name) {
		return "", errHost
	}
	return name, nil
}

var errWildLabel = errors.New("* and ? cannot stand beside characters that are not ASCII")

// asciiPattern maps a name that may have wildcards, also in the older way; "" means that
// both are the same.
func asciiPattern(s string) (name, inOlder string, err error) {
	if !strings.ContainsAny(s, "*?") {
		if name, err = mapName(current, s); err != nil {
			return "", "", err
		}
		if inOlder, err = mapName(older, s); err != nil || inOlder == name {
			inOlder = ""
		}
		return name, inOlder, nil
	}
	// What a wildcard stands for is not known, so only the labels around it can be mapped.
	labels := strings.Split(strings.TrimRight(dots.Replace(lowerASCII(s)), "."), ".")
	olderLabels := make([]string, len(labels))
	for i, label := range labels {
		olderLabels[i] = label
		if isASCII(label) {
			continue
		}
		if strings.ContainsAny(label, "*?") {
			return "", "", errWildLabel
		}
		if labels[i], olderLabels[i], err = asciiPattern(label); err != nil {
			return "", "", err
		}
		if olderLabels[i] == "" {
			olderLabels[i] = labels[i]
		}
	}
	name, inOlder = strings.Join(labels, "."), strings.Join(olderLabels, ".")
	if inOlder == name {
		inOlder = ""
	}
	return name, inOlder, nil
}

// dots are the characters that separate labels like the dot.
var dots = strings.NewReplacer("\u3002", ".", "\uff0e", ".", "\uff61", ".")
