package host

import (
	"net/netip"
	"strconv"
	"strings"
)

// EndsInNumber reports whether the last label of a host, in lower case, is a number. Programs treat such a host as an
// IPv4 address.
func EndsInNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// ParseIPv4 parses an IPv4 address in every form that programs accept: one to four parts, each decimal, octal after 0 or
// hexadecimal after 0x. The last part fills all remaining bytes. A bare 0x is 0, as in browsers. Letters are in lower
// case.
func ParseIPv4(s string) (netip.Addr, bool) {
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
		if hex == "" {
			return 0, true
		}
		s, base = hex, 16
	} else if len(s) > 1 && s[0] == '0' {
		base = 8
	}
	n, err := strconv.ParseUint(s, base, 64)
	return n, err == nil
}
