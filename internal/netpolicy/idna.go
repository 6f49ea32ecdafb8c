package netpolicy

import (
	"errors"
	"strings"

	"github.com/tetherexec/tether/internal/host"
)

// asciiName maps a name, which may be not ASCII, by toASCII. The result can be looked up, or is an address.
func asciiName(s string, toASCII func(string) (string, error)) (string, error) {
	name, err := toASCII(s)
	if err != nil {
		return "", err
	}
	name = strings.TrimSuffix(name, ".")
	if _, ok := host.ParseIPv4(name); !ok && !host.ValidName(name) {
		return "", errHost
	}
	return name, nil
}

func lowerASCII(s string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, s)
}

var errWildLabel = errors.New("* and ? cannot stand beside characters that are not ASCII")

// asciiPattern maps a name that may have wildcards, by the current rules and by those of IDNA 2003. inOlder is "" if
// both give the same.
func asciiPattern(s string) (name, inOlder string, err error) {
	if !strings.ContainsAny(s, "*?") {
		if name, err = asciiName(s, host.ToASCII); err != nil {
			return "", "", err
		}
		if inOlder, err = asciiName(s, host.ToASCII2003); err != nil || inOlder == name {
			inOlder = ""
		}
		return name, inOlder, nil
	}
	// The text that a wildcard stands for is not known, so only the labels around it can
	// be mapped.
	labels := strings.Split(strings.TrimRight(dots.Replace(lowerASCII(s)), "."), ".")
	olderLabels := make([]string, len(labels))
	for i, label := range labels {
		olderLabels[i] = label
		if host.IsASCII(label) {
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
