package wire

import (
	"encoding/base64"
	"path"
	"runtime"
	"strings"
	"testing"
)

func skipOnWindows(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("expects POSIX paths to be native")
	}
}

// The normal forms and the paths were taken from the reference.
func TestPathURI(t *testing.T) {
	for _, tt := range []struct{ in, uri, native string }{
		{"file:///a/b", "file:///a/b", "/a/b"},
		{"file:/a/b", "file:///a/b", "/a/b"},
		{"file:a/b", "file:///a/b", "/a/b"},
		{"FILE:///a/b", "file:///a/b", "/a/b"},
		{"file://LocalHost/a/b", "file:///a/b", "/a/b"},
		{"file://%6cocalhost/a", "file:///a", "/a"},
		{"file:", "file:///", "/"},
		{"file:/", "file:///", "/"},
		{"file://", "file:///", "/"},
		{"file:///", "file:///", "/"},
		{"file://localhost", "file:///", "/"},
		{"file:///a/./b/../c", "file:///a/c", "/a/c"},
		{"file:///a/%2e/b/%2E%2e/c", "file:///a/c", "/a/c"},
		{"file:///../..", "file:///", "/"},
		{"file:///a/b/..", "file:///a/", "/a/"},
		{"file:///a/b/.", "file:///a/b/", "/a/b/"},
		{"file:///a/.../..c/.d", "file:///a/.../..c/.d", "/a/.../..c/.d"},
		{"file:///a//", "file:///a//", "/a//"},
		{"file:////a", "file:///a", "/a"},
		{"file://///", "file:///", "/"},
		{`file:\\\a\b`, "file:///a/b", "/a/b"},
		{"fi\tle:///a\tb\rc\nd", "file:///abcd", "/abcd"},
		{" \x01file:///a\x1f ", "file:///a", "/a"},
		{"file:///a%FFb", "file:///a%FFb", "/a\xffb"},
		{"file:///a%2Fb", "file:///a%2Fb", "/a/b"},
		{"file:///x%2f..", "file:///x%2f..", "/x/.."},
		{"file:///a%zzb%4%", "file:///a%zzb%4%", "/a%zzb%4%"},
		{"file:///é", "file:///%C3%A9", "/é"},
		{"file:///a b\"c`{}<>\x7f", "file:///a%20b%22c%60%7B%7D%3C%3E%7F", "/a b\"c`{}<>\x7f"},
		{"file:///|^[];=,$&+!*()@:~'", "file:///|^[];=,$&+!*()@:~'", "/|^[];=,$&+!*()@:~'"},
		{"file:///a%5Cb", "file:///a%5Cb", `/a\b`},
		{"file:///srv/C:/x", "file:///srv/C:/x", "/srv/C:/x"},
		{"file:///c:x", "file:///c:x", "/c:x"},
		{"file:///%43:/x", "file:///%43:/x", "/C:/x"},
		{"file:///c|/x", "file:///c|/x", "/c|/x"},
		{"file:///./c|/x", "file:///c|/x", "/c|/x"},
		{"file://localhost/c|/x", "file:///c|/x", "/c|/x"},
		{"file:///tmp/c:/..", "file:///tmp/c:/", "/tmp/c:/"}, // a quirk: .. does not leave what looks like a drive
		{"file:///tmp/c|/..", "file:///tmp/c|/", "/tmp/c|/"},
		{"file:///%00/bad/path/L0M6L3g", "file:///%00/bad/path/L0M6L3g", "/C:/x"},
		{"file://localhost/%00/bad/path/L0M6", "file:///%00/bad/path/L0M6", "/C:"},
		{"file:///%00/bad/path/L2EAYg", "file:///%00/bad/path/L2EAYg", "/a\x00b"},
	} {
		u, err := ParsePathURI(tt.in)
		if err != nil || u.String() != tt.uri {
			t.Errorf("ParsePathURI(%q) = %s, %v; want %s", tt.in, u, err, tt.uri)
			continue
		}
		if native, err := u.nativeOn("linux"); native != tt.native || err != nil {
			t.Errorf("%q: native %q, %v; want %q", tt.in, native, err, tt.native)
		}
		if again, err := ParsePathURI(u.String()); again != u || err != nil {
			t.Errorf("%s parses to %s, %v", u, again, err)
		}
		if _, err := u.nativeOn("windows"); err == nil {
			t.Errorf("%q is native on windows", tt.in)
		}
	}
}

func TestForeignPathURI(t *testing.T) {
	for in, uri := range map[string]string{
		"file:///C:/x": "file:///C:/x", "file:///c:/x": "file:///C:/x", "file:///C:": "file:///C:", "file:c:/x": "file:///C:/x",
		"file:/c|/x": "file:///C:/x", "file:c|": "file:///C:", "file://c:/x": "file:///C:/x", "file://C|/x": "file:///C:/x",
		"file:////c:/x": "file:///C:/x", "file:///./c:/x": "file:///C:/x", "file:///a/../C:/x": "file:///C:/x",
		"file:///../c|/x": "file:///C:/x", "file:///C:/../..": "file:///C:/", "file:///c%3A/x": "file:///C%3A/x", "file:///C%3a": "file:///C%3a",
		"file:///C:/a//b/./c d": "file:///C:/a//b/c%20d", "file:///C://../..": "file:///C:/", "file:///C:/a/c:/../d": "file:///C:/a/c:/d",
		"file://LOCALHOST/C:/x": "file:///C:/x", "file://server/c|/x": "file:///C:/x", "file://server/a/../c|": "file:///C:",
		"file://SERVER/share": "file://server/share", "file://tmp": "file://tmp/", `file:\\server\share`: "file://server/share",
		"file://server//c|/x": "file://server/c|/x", "file://server/a/../..": "file://server/", "file://ex%41mple/x": "file://example/x",
		"file://./x": "file://./x", "file://a_b!~/x": "file://a_b!~/x", "file://localhost./x": "file://localhost./x",
		"file://1.2.3.4/x": "file://1.2.3.4/x", "file://0x7F.1/x": "file://0x7f.1/x", "file://256.1/x": "file://256.1/x", "file://[::1]/x": "file://[::1]/x",
		"file:///%00/bad/path/L3RtcA": "file:///%00/bad/path/L3RtcA", // has an ordinary URI
	} {
		u, err := ParsePathURI(in)
		if err != nil || u.String() != uri {
			t.Errorf("ParsePathURI(%q) = %s, %v; want %s", in, u, err, uri)
			continue
		}
		for goos, name := range map[string]string{"linux": "linux", "darwin": "macos"} {
			if p, err := u.nativeOn(goos); err == nil || err.Error() != "'"+uri+"' is invalid on '"+name+"'" {
				t.Errorf("%q on %s: %q, %v", in, goos, p, err)
			}
		}
	}
}

func TestPathURIErrors(t *testing.T) {
	const idn = "invalid URI: invalid international domain name"
	invalid := func(uri string) string { return PathURI{uri}.invalid(runtime.GOOS).Error() }
	for in, want := range map[string]string{
		"/tmp": errRelative.Error(), "tmp": errRelative.Error(), "": errRelative.Error(), "file": errRelative.Error(),
		"1a:b": errRelative.Error(), "ä:b": errRelative.Error(), "file :///a": errRelative.Error(), "://x": errRelative.Error(),
		"HTTP://x/": "unsupported path URI scheme `http`", "a+b-c.d:x": "unsupported path URI scheme `a+b-c.d`",
		"file:///a?": "query parameters are not allowed in path URIs", "file:?a#b": "query parameters are not allowed in path URIs",
		"file:///a#": "fragments are not allowed in path URIs", "file:#?": "fragments are not allowed in path URIs",
		"file://u@h/a": idn, "file://h:80/a": idn, "file://localhost:/x": idn, "file://a b/x": idn, "file://a%20b/x": idn,
		"file://c:x/y": idn, "file://a<b/x": idn, "file://%00/x": idn,
		"file://[zz]/x": "invalid URI: invalid IPv6 address", "file://[::1/x": "invalid URI: invalid IPv6 address",
		"file:///a%00b": invalid("file:///a%00b"), "file:///a\x00b": invalid("file:///a%00b"), "file:///C:/%00": invalid("file:///C:/%00"),
		"file:///%00/bad/path":               invalid("file:///%00/bad/path"),
		"file:///%00/bad/path/":              invalid("file:///%00/bad/path/"),
		"file:///%00/bad/path/L0M6L3g=":      invalid("file:///%00/bad/path/L0M6L3g="),
		"file:///%00/bad/path/L0M6L3h":       invalid("file:///%00/bad/path/L0M6L3h"),
		"file:///%00/bad/path/L0M6L3g/x":     invalid("file:///%00/bad/path/L0M6L3g/x"),
		"file:///%00/bad/path/%4C0M6L3g":     invalid("file:///%00/bad/path/%4C0M6L3g"),
		"file://server/%00/bad/path/L0M6L3g": invalid("file://server/%00/bad/path/L0M6L3g"),
		"file:///a/%00/bad/path/L0M6L3g":     invalid("file:///a/%00/bad/path/L0M6L3g"),
		"file:///%00/bad/path/L0M6L3g?":      "query parameters are not allowed in path URIs",
	} {
		if u, err := ParsePathURI(in); err == nil || err.Error() != want {
			t.Errorf("ParsePathURI(%q) = %s, %v; want error %s", in, u, err, want)
		}
	}
}

// A path must not have two URIs: an opaque URI is refused if the path has an ordinary URI, or is
// not in its shortest form.
func TestOpaquePathURI(t *testing.T) {
	for payload, ok := range map[string]bool{
		"/C:": true, "/c:/x": true, "/a\x00": true, "/\xff\x00": true, "/C:x\x00": true,
		"/C:/": false, "/C:/../x": false, "//C:/x": false, "/./C:/x": false, "/C:x": false, "/tmp": false, "tmp": false,
		"/\x00a": false, "/\x00": false, "/a/../b\x00": false, "//\x00": false, "C\x00:\x00\\\x00": false, "\x00": false,
	} {
		uri := opaquePrefix + base64.RawURLEncoding.EncodeToString([]byte(payload))
		u, err := ParsePathURI(uri)
		if err != nil {
			t.Errorf("%q: %v", payload, err)
			continue
		}
		if native, err := u.nativeOn("linux"); (err == nil) != ok || ok && native != payload {
			t.Errorf("%q: native %q, %v", payload, native, err)
		}
	}
}

func TestPathToURI(t *testing.T) {
	for in, want := range map[string]string{
		"/": "file:///", "/a/b": "file:///a/b", "/a/": "file:///a/", "//a": "file:///a",
		"/a b\"#<>?`{}%\\": "file:///a%20b%22%23%3C%3E%3F%60%7B%7D%25%5C", "/\x00": opaquePrefix + "LwA",
		"/|^[];=,$&+!*()@:~'": "file:///|^[];=,$&+!*()@:~'", "/\t\n\x7f\xffé": "file:///%09%0A%7F%FF%C3%A9",
		"/a/./b/../c": "file:///a/c", "/C:/x": opaquePrefix + "L0M6L3g", "/C:/x/": opaquePrefix + "L0M6L3g", "/srv/C:": "file:///srv/C:",
	} {
		if got := pathToURIOn("linux", in); got != want {
			t.Errorf("PathToURI(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestWindowsPaths(t *testing.T) {
	for native, uri := range map[string]string{
		`C:\`: "file:///C:/", `C:\a b\c`: "file:///C:/a%20b/c", `\\server\share\x`: "file://server/share/x",
	} {
		if got := pathToURIOn("windows", native); got != uri {
			t.Errorf("PathToURI(%q) = %s, want %s", native, got, uri)
		}
		u, err := ParsePathURI(uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if got, err := u.nativeOn("windows"); got != native || err != nil {
			t.Errorf("%s: native %q, %v", uri, got, err)
		}
	}
	if got, err := (PathURI{"file:///C:"}).nativeOn("windows"); got != `C:\` || err != nil {
		t.Errorf("a bare drive is %q, %v", got, err)
	}
}

func TestZeroPathURI(t *testing.T) {
	if p, err := (PathURI{}).Native(); err == nil {
		t.Errorf("the zero PathURI is %q", p)
	}
}

// Properties: a parsed URI parses to itself, with and without the fast path; a path without dot
// segments comes back byte for byte.
func FuzzPathURI(f *testing.F) {
	for _, seed := range []string{"/a/b", "/C:/x", "/a%2f\xff", "/.hidden/..x", "//a//b/", "file:///c|/../d:", "file://0x7f.1/x",
		"file:////../C:/%2e%2E/\\", "file:///%00/bad/path/L0M6L3g", "/\x00a", "/a?b#c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		skipOnWindows(t)
		if u, err := ParsePathURI(s); err == nil {
			again, err := ParsePathURI(u.String())
			if err != nil || again != u {
				t.Fatalf("%q is %s, which parses to %s, %v", s, u, again, err)
			}
			if slow, err := normaliseFileURI(s); err != nil || slow != u.String() {
				t.Fatalf("%q is %s, or %s, %v", s, u, slow, err)
			}
			if p, err := u.Native(); err == nil && !strings.HasPrefix(p, "/") {
				t.Fatalf("%q has the relative path %q", s, p)
			}
		}
		p := "/" + s
		if strings.HasPrefix(s, "/") || hasDotSegment(p) || strings.HasPrefix(s, "\x00") || needsOpaque(p) && path.Clean(p) != p {
			return // not kept byte for byte
		}
		u, err := ParsePathURI(PathToURI(p))
		if err != nil {
			t.Fatalf("PathToURI(%q) = %s: %v", p, PathToURI(p), err)
		}
		if u.String() != PathToURI(p) {
			t.Fatalf("PathToURI(%q) = %s, normalised to %s", p, PathToURI(p), u)
		}
		if native, err := u.Native(); native != p || err != nil {
			t.Fatalf("%q came back as %q, %v", p, native, err)
		}
	})
}
