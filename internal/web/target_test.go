package web

import (
	"strings"
	"testing"
)

func TestTargets(t *testing.T) {
	tests := map[string]string{
		"HTTP://LOCALHOST:80/Q":              "http://localhost/Q",
		"https://x:443":                      "https://x/",
		"https://x:0080":                     "https://x:80/",
		"http:x":                             "http://x/",
		"http:///x":                          "http://x/",
		`http:\\h\bs\c?a\b`:                  `http://h/bs/c?a\b`,
		"http://h?q":                         "http://h/?q",
		"http://h/a b":                       "http://h/a%20b",
		"http://h/é?é=ü&a=b c#x y":           "http://h/%C3%A9?%C3%A9=%C3%BC&a=b%20c#x%20y",
		"http://h/a/../b/./c//d/..":          "http://h/b/c//",
		"http://h/%2e%2E/x/.%2e/y/%2e":       "http://h/y/",
		"http://h/%zz%2f":                    "http://h/%zz%2f",
		" http://h/a\tb\nc ":                 "http://h/abc",
		"http://127.1/":                      "http://127.0.0.1/",
		"http://2130706433/":                 "http://127.0.0.1/",
		"http://0x7f.1/":                     "http://127.0.0.1/",
		"http://0177.0.0.1./":                "http://127.0.0.1/",
		"http://[::0001]:8/":                 "http://[::1]:8/",
		"http://[::FFFF:1.2.3.4]/":           "http://[::ffff:102:304]/",
		"http://ex%41mple..:1/":              "http://example..:1/",
		"http://bücher.invalid:1/":           "http://xn--bcher-kva.invalid:1/",
		"http://u:p@h/x#y":                   "http://h/x#y",
		"http://a@b@h/":                      "http://h/",
		"http://h:/x":                        "http://h/x",
		"http://h/\"<>`{}|^[]'?\"<>`{}|^[]'": "http://h/%22%3C%3E%60%7B%7D|^[]'?%22%3C%3E`{}|^[]%27",
	}
	for in, want := range tests {
		got, err := parseTarget(in)
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v, want %s", in, got, err, want)
		}
	}
}

func TestResolvedTargets(t *testing.T) {
	base, err := parseTarget("http://u:p@h:8/a/b?c#d")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"":           "http://h:8/a/b?c",
		"#x":         "http://h:8/a/b?c#x",
		"?x":         "http://h:8/a/b?x",
		"x":          "http://h:8/a/x",
		"../x?y#z":   "http://h:8/x?y#z",
		"/x":         "http://h:8/x",
		`\x`:         "http://h:8/x",
		"//g/x":      "http://g/x",
		"http:x":     "http://h:8/a/x",
		"https:x":    "https://x/",
		"HTTPS://g/": "https://g/",
	}
	for in, want := range tests {
		got, err := base.resolve(in)
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v, want %s", in, got, err, want)
		}
	}
	if base.String() != "http://h:8/a/b?c#d" {
		t.Errorf("base became %s", base)
	}
}

// A parsed target is safe to put on the wire, and parses to itself.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"http://h/a?b#c", "http:\\\\u:p@[::1]:8/ x/..", "http://0x7f.1/%2e", "https://ü.de", "http://h/\r\nx: y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseTarget(s)
		if err != nil {
			return
		}
		text := got.String()
		if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Errorf("%q becomes %q", s, text)
		}
		if again, err := parseTarget(text); err != nil || again.String() != text {
			t.Errorf("%q becomes %q, then %v, %v", s, text, again, err)
		}
	})
}
