package web

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// A target is an absolute http or https URL. Like the reference, this package parses and writes URLs
// as browsers do (the WHATWG URL standard): a URL with spaces, backslashes or a short IPv4 address is
// repaired, not refused.
type target struct {
	scheme   string // http or https; another one only from resolve
	userinfo string // percent-encoded, without the @
	host     string // lower case; IPv6 in brackets
	port     string // empty: the scheme's own
	path     string // percent-encoded, from the first slash
	query    string // percent-encoded, with the question mark, or empty
	fragment string // percent-encoded, with the #, or empty
}

// Errors of URLs, with the texts of the reference.
var (
	errRelative  = errors.New("relative URL without a base")
	errEmptyHost = errors.New("empty host")
	errPort      = errors.New("invalid port number")
	errIPv4      = errors.New("invalid IPv4 address")
	errIPv6      = errors.New("invalid IPv6 address")
	errDomain    = errors.New("invalid international domain name")
)

// errScheme is a well-formed URL of a kind that this package cannot fetch.
type errScheme string

func (e errScheme) Error() string { return fmt.Sprintf("unsupported scheme %s", string(e)) }

// parseTarget parses an absolute URL.
func parseTarget(s string) (*target, error) { return (*target)(nil).resolve(s) }

// resolve parses a URL that may be relative to base. base may be nil.
func (base *target) resolve(s string) (*target, error) {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	s = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
	scheme, rest, ok := cutScheme(s)
	switch {
	case !ok && base == nil:
		return nil, errRelative
	case !ok:
		return base.relative(s)
	case scheme != "http" && scheme != "https":
		return nil, errScheme(scheme)
	case base != nil && scheme == base.scheme && slashes(rest) == 0:
		return base.relative(rest)
	}
	return parseAuthority(scheme, rest[slashes(rest):])
}

// cutScheme splits "http:rest".
func cutScheme(s string) (scheme, rest string, ok bool) {
	for i := range len(s) {
		switch c := s[i] | 0x20; {
		case c >= 'a' && c <= 'z':
		case i > 0 && s[i] == ':':
			return strings.ToLower(s[:i]), s[i+1:], true
		case i > 0 && strings.IndexByte("0123456789+-.", s[i]) >= 0:
		default:
			return "", "", false
		}
	}
	return "", "", false
}

// slashes counts the slashes of either kind that s begins with.
func slashes(s string) int { return len(s) - len(strings.TrimLeft(s, `/\`)) }

// parseAuthority parses the text after "http://".
func parseAuthority(scheme, s string) (*target, error) {
	authority, rest := s, ""
	if i := strings.IndexAny(s, `/\?#`); i >= 0 {
		authority, rest = s[:i], s[i:]
	}
	t := &target{scheme: scheme}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, _ := strings.Cut(authority[:i], ":")
		t.userinfo = escape(user, inUserinfo)
		if password != "" {
			t.userinfo += ":" + escape(password, inUserinfo)
		}
		authority = authority[i+1:]
	}
	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host, port = authority[:i], authority[i+1:]
	}
	var err error
	if t.host, err = parseHost(host); err != nil {
		return nil, err
	}
	if t.port, err = parsePort(port, t.defaultPort()); err != nil {
		return nil, err
	}
	t.setTail(rest, nil)
	return t, nil
}

// parsePort returns the port without leading zeros, or empty if it is the usual one.
func parsePort(s, usual string) (string, error) {
	if s == "" {
		return "", nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || s[0] == '+' {
		return "", errPort
	}
	if port := strconv.FormatUint(n, 10); port != usual {
		return port, nil
	}
	return "", nil
}

// relative resolves a reference without a scheme.
func (base *target) relative(s string) (*target, error) {
	if slashes(s) >= 2 {
		return parseAuthority(base.scheme, s[slashes(s):])
	}
	t := *base
	t.fragment = ""
	switch {
	case s == "":
	case s[0] == '#':
		t.fragment = "#" + escape(s[1:], inFragment)
	case s[0] == '?':
		t.setQuery(s)
	case slashes(s) == 1:
		t.setTail(s, nil)
	default:
		segments := strings.Split(base.path, "/")
		t.setTail(s, segments[1:len(segments)-1])
	}
	return &t, nil
}

// setTail parses path, query and fragment. The path is relative to the segments.
func (t *target) setTail(s string, segments []string) {
	path, rest := s, ""
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		path, rest = s[:i], s[i:]
	}
	path = strings.TrimPrefix(strings.ReplaceAll(path, `\`, "/"), "/")
	parts := strings.Split(path, "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch strings.ReplaceAll(strings.ToLower(part), "%2e", ".") {
		case "..":
			segments = segments[:max(0, len(segments)-1)]
			if last {
				segments = append(segments, "")
			}
		case ".":
			if last {
				segments = append(segments, "")
			}
		default:
			segments = append(segments[:len(segments):len(segments)], escape(part, inPath))
		}
	}
	t.path = "/" + strings.Join(segments, "/")
	t.setQuery(rest)
}

// setQuery parses query and fragment, each with its mark.
func (t *target) setQuery(s string) {
	query, fragment, hasFragment := strings.Cut(s, "#")
	t.query, t.fragment = "", ""
	if strings.HasPrefix(query, "?") {
		t.query = "?" + escape(query[1:], inQuery)
	}
	if hasFragment {
		t.fragment = "#" + escape(fragment, inFragment)
	}
}

// Characters that are percent-encoded in each part, besides control characters and characters beyond
// ASCII.
const (
	inFragment = " \"<>`"
	inQuery    = " \"#<>'"
	inPath     = " \"#<>?`{}"
	inUserinfo = inPath + "/:;=@[\\]^|"
)

// escape percent-encodes the bytes of s that need it.
func escape(s, special string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || strings.IndexByte(special, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func (t *target) defaultPort() string {
	if t.scheme == "https" {
		return "443"
	}
	return "80"
}

// authority is the host, with the port if it is not the scheme's own.
func (t *target) authority() string {
	if t.port == "" {
		return t.host
	}
	return t.host + ":" + t.port
}

// address is the host and port to dial.
func (t *target) address() string {
	port := t.port
	if port == "" {
		port = t.defaultPort()
	}
	return net.JoinHostPort(t.hostname(), port)
}

// hostname is the host without brackets.
func (t *target) hostname() string { return strings.Trim(t.host, "[]") }

// sameOrigin reports whether credentials for one target may be sent to the other.
func (t *target) sameOrigin(u *target) bool {
	return t.scheme == u.scheme && t.address() == u.address()
}

// page is the URL without userinfo and fragment, for the referer header.
func (t *target) page() string { return t.scheme + "://" + t.authority() + t.path + t.query }

// String is the URL without userinfo, for error messages.
func (t *target) String() string { return t.page() + t.fragment }

// login returns the user and password in the URL.
func (t *target) login() (user, password string, ok bool) {
	if t.userinfo == "" {
		return "", "", false
	}
	user, password, _ = strings.Cut(t.userinfo, ":")
	return unescape(user), unescape(password), true
}

// unescape decodes percent-encoding. Malformed escapes stay unchanged.
func unescape(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c, ok := hexByte(s[i:]); ok {
			b.WriteByte(c)
			i += 2
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// hexByte reads "%41" at the start of s.
func hexByte(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:3], 16, 8)
	return byte(n), err == nil
}
