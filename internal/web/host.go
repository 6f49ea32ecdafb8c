package web

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parseHost reads the host of a URL and returns it as it is written out.
func parseHost(s string) (string, error) {
	if s == "" {
		return "", errEmptyHost
	}
	if s[0] == '[' {
		return parseIPv6(s)
	}
	domain := unescape(s)
	if !utf8.ValidString(domain) {
		return "", errDomain
	}
	domain = strings.ToLower(domain)
	if strings.ContainsFunc(domain, isForbiddenInDomain) {
		return "", errDomain
	}
	if !isASCII(domain) {
		var err error
		if domain, err = toASCII(domain); err != nil {
			return "", err
		}
	}
	if !endsInNumber(domain) {
		return domain, nil
	}
	return parseIPv4(domain)
}

func isForbiddenInDomain(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`"#%/:<>?@[\]^|`, r)
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

// endsInNumber tells whether the last label is a number: then the host must
// be an IPv4 address.
func endsInNumber(host string) bool {
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	last := labels[len(labels)-1]
	if last == "" {
		return false
	}
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	_, err := ipv4Number(last)
	return err == nil
}

// parseIPv4 reads an address of one to four numbers, each decimal, octal or
// hexadecimal; the last fills the bytes that are left.
func parseIPv4(host string) (string, error) {
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return "", errIPv4
	}
	var addr uint64
	for i, part := range parts {
		n, err := ipv4Number(part)
		if err != nil {
			return "", errIPv4
		}
		limit, shift := uint64(256), 8*(3-i)
		if i == len(parts)-1 {
			limit, shift = uint64(1)<<(8*(4-i)), 0
		}
		if n >= limit {
			return "", errIPv4
		}
		addr |= n << shift
	}
	return netip.AddrFrom4([4]byte{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)}).String(), nil
}

// ipv4Number reads a part of an IPv4 address.
func ipv4Number(s string) (uint64, error) {
	switch {
	case s == "0x":
		return 0, nil
	case strings.HasPrefix(s, "0x"):
		return strconv.ParseUint(s[2:], 16, 64)
	case len(s) > 1 && s[0] == '0':
		return strconv.ParseUint(s[1:], 8, 64)
	}
	return strconv.ParseUint(s, 10, 64)
}

// toASCII converts an international domain name. The standard library keeps
// its tables to itself; the host line of a request that it writes shows them.
func toASCII(domain string) (string, error) {
	var head bytes.Buffer
	r := http.Request{Method: http.MethodGet, Host: domain, URL: &url.URL{Path: "/"}}
	if err := r.Write(&head); err != nil {
		return "", errDomain
	}
	_, rest, _ := strings.Cut(head.String(), "Host: ")
	host, _, ok := strings.Cut(rest, "\r\n")
	if !ok || host == "" || !isASCII(host) || strings.ContainsFunc(host, isForbiddenInDomain) {
		return "", errDomain
	}
	return host, nil
}
