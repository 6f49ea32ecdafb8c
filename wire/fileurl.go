package wire

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Errors of ParsePathURI, with the texts of the reference.
var (
	errRelative = errors.New("invalid URI: relative URL without a base")
	errQuery    = errors.New("query parameters are not allowed in path URIs")
	errFragment = errors.New("fragments are not allowed in path URIs")
	errDomain   = errors.New("invalid URI: invalid international domain name")
	errIPv6     = errors.New("invalid URI: invalid IPv6 address")
	errNoHost   = errors.New("invalid URI: empty host")
)

// normaliseFileURI parses a file: URL and writes it again.
func normaliseFileURI(s string) (string, error) {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	s = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
	scheme, rest, ok := cutScheme(s)
	if !ok {
		return "", errRelative
	}
	if scheme != "file" {
		return "", fmt.Errorf("unsupported path URI scheme `%s`", clip([]byte(scheme)))
	}
	var tail byte // '?' or '#' after the path; 0: none
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest, tail = rest[:i], rest[i]
	}
	host, p, err := cutHost(strings.ReplaceAll(rest, `\`, "/"))
	if err != nil {
		return "", err
	}
	switch tail {
	case '?':
		return "", errQuery
	case '#':
		return "", errFragment
	}
	p, drive := normalisePath(p)
	if drive {
		host = ""
	}
	if host == "" && isDrive(firstSegment(p)) {
		p = strings.ToUpper(p[:1]) + p[1:]
	}
	return "file://" + host + "/" + p, nil
}

// cutScheme splits off the scheme, in lower case.
func cutScheme(s string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(s, ":")
	if !ok || scheme == "" || !isLetter(scheme[0]) {
		return "", "", false
	}
	for i := range len(scheme) {
		if c := scheme[i]; !isLetter(c) && !isDigit(c) && strings.IndexByte("+-.", c) < 0 {
			return "", "", false
		}
	}
	return strings.ToLower(scheme), rest, true
}

// cutHost splits the text after the scheme into a host, empty for this machine, and a path.
// After // and an empty or local host, the path keeps its slash, so that it starts with an
// empty segment: then c| is not a drive, as in the reference.
func cutHost(rest string) (host, p string, err error) {
	after, ok := strings.CutPrefix(rest, "//")
	if !ok {
		return "", strings.TrimPrefix(rest, "/"), nil
	}
	host = firstSegment(after)
	if len(host) == 2 && looksLikeDrive(host) {
		return "", after, nil
	}
	p = after[len(host):]
	if host == "" {
		return "", p, nil
	}
	if host, err = parseHost(host); err != nil {
		return "", "", err
	}
	if host == "localhost" {
		return "", p, nil
	}
	return host, strings.TrimPrefix(p, "/"), nil
}

// normalisePath resolves dot segments, escapes bytes where that is needed, and merges the
// slashes at the start. It reports whether the first segment is a drive: then the host is
// ignored. As in the reference, .. does not leave a directory that looks like a drive, anywhere
// in the path.
func normalisePath(p string) (string, bool) {
	var segments []string
	drive := false
	for more := true; more; {
		var segment string
		segment, p, more = strings.Cut(p, "/")
		switch dots(segment) {
		case 2:
			if n := len(segments); n > 0 && !looksLikeDrive(segments[n-1]) {
				segments = segments[:n-1]
			}
			segment = ""
		case 1:
			segment = ""
		default:
			if len(segments) == 0 && looksLikeDrive(segment) {
				segment, drive = segment[:1]+":", true
			}
			segments = append(segments, escapeSegment(segment))
			continue
		}
		if !more {
			segments = append(segments, segment)
		}
	}
	return strings.TrimLeft(strings.Join(segments, "/"), "/"), drive
}

// dots returns 1 for ".", 2 for "..", else 0; escaped dots count.
func dots(segment string) int {
	n := 0
	for segment != "" {
		switch {
		case segment[0] == '.':
			segment = segment[1:]
		case len(segment) >= 3 && strings.EqualFold(segment[:3], "%2e"):
			segment = segment[3:]
		default:
			return 0
		}
		n++
	}
	if n > 2 {
		return 0
	}
	return n
}

func looksLikeDrive(segment string) bool {
	return len(segment) == 2 && isLetter(segment[0]) && (segment[1] == ':' || segment[1] == '|')
}

func escapeSegment(segment string) string {
	var b []byte
	for i := range len(segment) {
		if escapeInPath(segment[i]) {
			b = fmt.Appendf(b, "%%%02X", segment[i])
		} else {
			b = append(b, segment[i])
		}
	}
	return string(b)
}

// parseHost normalises the host of a URI. A URI with a host is never native to a POSIX system.
// So short forms of IPv4 addresses are not expanded, and names beyond ASCII are refused: the
// tables for them are not worth their size here.
func parseHost(host string) (string, error) {
	if strings.HasPrefix(host, "[") {
		addr, err := netip.ParseAddr(strings.TrimSuffix(host[1:], "]"))
		if err != nil || !strings.HasSuffix(host, "]") || !addr.Is6() || addr.Zone() != "" {
			return "", errIPv6
		}
		return "[" + addr.String() + "]", nil
	}
	host = strings.ToLower(unescapePath(host))
	for i := range len(host) {
		if c := host[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("#%/:<>?@[\\]^|", c) >= 0 {
			return "", errDomain
		}
	}
	if host == "" {
		return "", errNoHost
	}
	return host, nil
}
