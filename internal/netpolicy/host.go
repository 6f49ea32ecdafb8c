package netpolicy

import (
	"net/netip"
	"strconv"
	"strings"
)

// Lengths of names and of their parts, of RFC 1035.
const (
	maxName  = 253
	maxLabel = 63
)

func lowerASCII(s string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		return c
	}, s)
}

// validName reports whether s, in lower case, is a name that can be looked up.
// Underscores are in use.
func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	label := ""
	for label = range strings.SplitSeq(s, ".") {
		if !validLabel(label) {
			return false
		}
	}
	return !isNumber(label)
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

// isNumber reports whether the last label s makes a program take a name for an address.
func isNumber(s string) bool {
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(s, "0123456789") == ""
}

// parseIPv4 reads an IPv4 address in any form that inet_aton knows: one to four parts,
// decimal, octal after 0, hexadecimal after 0x; the last one fills what is left.
func parseIPv4(s string) (netip.Addr, bool) {
	parts := strings.SplitN(s, ".", 5)
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var address uint64
	for i, part := range parts {
		n, ok := parsePart(part)
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if !ok || n >= 1<<bits {
			return netip.Addr{}, false
		}
		address = address<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}), true
}

func parsePart(s string) (uint64, bool) {
	base := 10
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		s, base = hex, 16
	} else if len(s) > 1 && s[0] == '0' {
		base = 8
	}
	n, err := strconv.ParseUint(s, base, 32)
	return n, err == nil
}
