package wire

import (
	"encoding/base64"
	"errors"
	"path"
	"runtime"
	"strings"
	"unicode/utf16"
)

// A PathURI is a path on the executor in the form of the protocol: a normalised file: URI.
// It follows the executor's own convention, so that both ends need not run the same system.
// PathURIs are comparable; the zero value is no path.
type PathURI struct{ uri string }

// opaquePrefix starts the URI of a path that has no ordinary URI; the rest is the path in
// base64.
const opaquePrefix = "file:///%00/bad/path/"

var opaqueBase64 = base64.RawURLEncoding.Strict()

// ParsePathURI parses a file: URI by the rules of the WHATWG URL standard as the reference
// applies them. It accepts URIs of other systems' conventions; Native refuses them.
func ParsePathURI(s string) (PathURI, error) {
	if isPlainURI(s) {
		return PathURI{s}, nil
	}
	uri, err := normaliseFileURI(s)
	if err != nil {
		return PathURI{}, err
	}
	u := PathURI{uri}
	if payload, ok := strings.CutPrefix(uri, opaquePrefix); ok {
		if payload == "" || !isCanonicalBase64(payload) {
			return PathURI{}, u.invalid(runtime.GOOS)
		}
		return u, nil
	}
	if strings.Contains(uri, "%00") {
		return PathURI{}, u.invalid(runtime.GOOS)
	}
	return u, nil
}

// isPlainURI reports whether s surely is normalised: file:/// and segments of
// ordinary characters, none of which starts with a dot.
func isPlainURI(s string) bool {
	p, ok := strings.CutPrefix(s, "file:///")
	if !ok || strings.HasPrefix(p, "/") || isDrive(firstSegment(p)) {
		return false
	}
	last := byte('/')
	for i := range len(p) {
		c := p[i]
		if c <= ' ' || c >= 0x7f || c == '%' || c == '\\' || escapeInPath(c) && c != '/' || c == '.' && last == '/' {
			return false
		}
		last = c
	}
	return true
}

func isCanonicalBase64(s string) bool {
	_, err := opaqueBase64.DecodeString(s)
	return err == nil && !strings.ContainsAny(s, "\r\n")
}

// String returns the normalised URI.
func (u PathURI) String() string { return u.uri }

// AppendJSON appends the URI as a JSON string.
func (u PathURI) AppendJSON(b []byte) []byte { return AppendString(b, u.uri) }

func (u *PathURI) decodeWire(d *decoder) error {
	s, err := d.text()
	if err != nil {
		return err
	}
	if d.draft && isAbsolute(s) {
		s = PathToURI(s)
	}
	*u, err = ParsePathURI(s)
	return err
}

// Native returns the path on this machine: raw bytes, not necessarily UTF-8,
// possibly with a NUL that the operating system will refuse. A URI of another
// convention is an error that names this system.
func (u PathURI) Native() (string, error) { return u.nativeOn(runtime.GOOS) }

// NativeOn is Native for a machine with another system, named as in runtime.GOOS.
func (u PathURI) NativeOn(goos string) (string, error) { return u.nativeOn(goos) }

func (u PathURI) nativeOn(goos string) (string, error) {
	rest, ok := strings.CutPrefix(u.uri, "file://")
	if !ok {
		return "", u.invalid(goos)
	}
	if payload, ok := strings.CutPrefix(u.uri, opaquePrefix); ok {
		return u.opaqueOn(goos, payload)
	}
	host, p, _ := strings.Cut(rest, "/")
	foreign := host != "" || isDrive(firstSegment(p))
	if foreign != (goos == "windows") {
		return "", u.invalid(goos)
	}
	native := unescapePath(p)
	switch {
	case !foreign:
		return "/" + native, nil
	case host != "":
		return `\\` + host + `\` + strings.ReplaceAll(native, "/", `\`), nil
	}
	if len(p) == len("C:") {
		native += "/" // the root of the drive, not its current directory
	}
	return strings.ReplaceAll(native, "/", `\`), nil
}

// opaqueOn returns the path in an opaque URI. The path must be absolute and clean, and must not
// have an ordinary URI: a path must not have two URIs.
func (u PathURI) opaqueOn(goos, payload string) (string, error) {
	raw, err := opaqueBase64.DecodeString(payload)
	if err != nil || goos == "windows" {
		return "", u.invalid(goos)
	}
	p := string(raw)
	// A NUL after the first byte means the UTF-16 of another system.
	if !strings.HasPrefix(p, "/") || strings.HasPrefix(p, "/\x00") || path.Clean(p) != p || !needsOpaque(p) {
		return "", u.invalid(goos)
	}
	return p, nil
}

// needsOpaque reports whether a POSIX path has no ordinary URI: a NUL cannot be escaped, and /C:
// would mean a drive.
func needsOpaque(p string) bool {
	return strings.Contains(p, "\x00") || isDrive(firstSegment(strings.TrimLeft(p, "/")))
}

func (u PathURI) invalid(goos string) error {
	if goos == "darwin" {
		goos = "macos"
	}
	return errors.New("'" + string(clip([]byte(u.uri))) + "' is invalid on '" + goos + "'")
}

// PathToURI returns the URI of an absolute native path. Dot segments are resolved lexically and
// slashes at the start merged, as each parser of the URI would do. Apart from that, Native
// returns the path byte for byte.
func PathToURI(native string) string { return pathToURIOn(runtime.GOOS, native) }

// PathURIOn is the URI of an absolute path of another system, named as in
// runtime.GOOS.
func PathURIOn(goos, native string) PathURI { return PathURI{pathToURIOn(goos, native)} }

func pathToURIOn(goos, native string) string {
	if goos == "windows" {
		return windowsToURI(native)
	}
	p := "/" + strings.TrimLeft(native, "/")
	if hasDotSegment(p) {
		p = path.Clean(p)
	}
	if needsOpaque(p) {
		return opaquePrefix + opaqueBase64.EncodeToString([]byte(path.Clean(p)))
	}
	return string(appendEscaped([]byte("file://"), p))
}

func windowsToURI(native string) string {
	p := strings.ReplaceAll(native, `\`, "/")
	if strings.Contains(p, "\x00") {
		var raw []byte
		for _, unit := range utf16.Encode([]rune(native)) {
			raw = append(raw, byte(unit), byte(unit>>8))
		}
		return opaquePrefix + opaqueBase64.EncodeToString(raw)
	}
	if unc, ok := strings.CutPrefix(p, "//"); ok {
		return string(appendEscaped([]byte("file://"), unc))
	}
	return string(appendEscaped([]byte("file:///"), strings.TrimLeft(p, "/")))
}

func hasDotSegment(p string) bool {
	for segment := range strings.SplitSeq(p, "/") {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// isAbsolute reports whether s is a plain absolute path of this system.
func isAbsolute(s string) bool {
	if runtime.GOOS != "windows" {
		return strings.HasPrefix(s, "/")
	}
	return strings.HasPrefix(s, `\\`) || len(s) > 2 && isDrive(s[:2]) && (s[2] == '\\' || s[2] == '/')
}

// appendEscaped appends a path, and escapes bytes that a URI cannot contain. Slashes are not
// escaped.
func appendEscaped(b []byte, p string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(p) {
		if c := p[i]; c == '%' || c == '\\' || c != '/' && escapeInPath(c) {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

// escapeInPath reports whether a byte of a URI's path must be escaped. A
// percent sign is not among them: in a URI it starts an escape.
func escapeInPath(c byte) bool {
	return c <= ' ' || c >= 0x7f || strings.IndexByte("\"#<>?`{}/", c) >= 0
}

// unescapePath resolves the escapes of a URI's path; broken ones are literal.
func unescapePath(p string) string {
	if !strings.Contains(p, "%") {
		return p
	}
	b := make([]byte, 0, len(p))
	for i := 0; i < len(p); i++ {
		if c, ok := escapedByte(p, i); ok {
			b = append(b, c)
			i += 2
		} else {
			b = append(b, p[i])
		}
	}
	return string(b)
}

// escapedByte returns the byte that an escape at p[i] stands for.
func escapedByte(p string, i int) (byte, bool) {
	if p[i] != '%' || i+2 >= len(p) {
		return 0, false
	}
	high, ok1 := unhex(p[i+1])
	low, ok2 := unhex(p[i+2])
	return high<<4 | low, ok1 && ok2
}

func firstSegment(p string) string {
	segment, _, _ := strings.Cut(p, "/")
	return segment
}

// isDrive reports whether a segment of a normalised URI names a drive.
func isDrive(segment string) bool {
	if segment == "" || !isLetter(segment[0]) {
		return false
	}
	rest := segment[1:]
	return rest == ":" || rest == "%3A" || rest == "%3a"
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
