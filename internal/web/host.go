package web

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/tetherexec/tether/internal/host"
)

// parseHost parses the host of a URL and returns its normal form.
func parseHost(s string) (string, error) {
	if s == "" {
		return "", errEmptyHost
	}
	if s[0] == '[' {
		return parseIPv6(s)
	}
	name := unescape(s)
	if !utf8.ValidString(name) {
		return "", errDomain
	}
	name = strings.ToLower(name)
	if !host.IsASCII(name) {
		var err error
		if name, err = host.ToASCII(name); err != nil {
			return "", errDomain
		}
	}
	if name == "" || strings.ContainsFunc(name, isForbiddenInDomain) {
		return "", errDomain
	}
	if !host.EndsInNumber(name) {
		return name, nil
	}
	address, ok := host.ParseIPv4(strings.TrimSuffix(name, "."))
	if !ok {
		return "", errIPv4
	}
	return address.String(), nil
}

func isForbiddenInDomain(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"#%/:<>?@[\]^|`, r)
}

func parseIPv6(s string) (string, error) {
	inner, ok := strings.CutSuffix(s[1:], "]")
	addr, err := netip.ParseAddr(inner)
	if !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", errIPv6
	}
	if addr.Is4In6() {
		b := addr.As16()
		return fmt.Sprintf("[::ffff:%x:%x]", int(b[12])<<8|int(b[13]), int(b[14])<<8|int(b[15])), nil
	}
	return "[" + addr.String() + "]", nil
}
