package netpolicy

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestNamesBeyondASCII(t *testing.T) {
	for in, want := range map[string]string{ // the last two are of RFC 3492, section 7.1
		"münchen.example":       "xn--mnchen-3ya.example",
		"MÜNCHEN.Example.":      "xn--mnchen-3ya.example",
		"mu\u0308nchen.example": "xn--mnchen-3ya.example", // decomposed
		"münchen。example":       "xn--mnchen-3ya.example", // other dots
		"münchen．example｡":      "xn--mnchen-3ya.example",
		"ｍｕ\u0308ｎｃｈｅｎ.example": "xn--mnchen-3ya.example", // full-width
		"mün\u00adchen.example": "xn--mnchen-3ya.example", // a soft hyphen
		"ｅｖｉｌ.example":          "evil.example",
		"\u212aelvin.example":   "kelvin.example", // the sign for Kelvin
		"a_b.ｅｖｉｌ.example":      "a_b.evil.example",
		"１２７.０.０.１":             "127.0.0.1",
		"１２７。１":                 "127.0.0.1",
		"０ｘ7f000001":            "127.0.0.1",
		"ｌｏｃａｌｈｏｓｔ":             "localhost",
		"straße.example":        "xn--strae-oqa.example",
		"a.bücher.例え.jp":        "a.xn--bcher-kva.xn--r8jz45g.jp",
		"☃.net":                 "xn--n3h.net",
		"他们为什么不说中文":             "xn--ihqwcrb4cv8a8dqg056pqjye",
		"почемужеонинеговорятпорусски": "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l",
	} {
		if got, err := Normalize(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
		r := compile(t, Settings{AllowLocalBinding: true, Domains: map[string]Access{"*": Allow, in: Deny}})
		for _, host := range []string{in, want} {
			if d := r.Decide(Query{Protocol: Connect, Method: "CONNECT", Host: host, Port: 443}); d.Reason != Denied || d.Rule != in {
				t.Errorf("%q denied as %q: %+v", host, in, d)
			}
		}
	}
	for _, in := range []string{"é\xff.example", "a\ufffd.example", "\u0378.example", "\u200b", "\u00ad", "a.\u00ad.é", "é..example", "é／a", "é：80", "ａ＿b／", "＊.example",
		"bücher.1", "[é]", strings.Repeat("é", 64) + ".example", "a\u0627.example" /* both directions in a label */} {
		if got, err := Normalize(in); err == nil {
			t.Errorf("%q: got %q, want an error", in, got)
		}
	}
}

// A pattern that stands for no name is refused: a deny rule with it would have no effect.
func TestPatternsBeyondASCII(t *testing.T) {
	for _, bad := range []string{"*ü.example", "b?ü.example", "*.bü*.example", "é\xff.example", "a\ufffd.example", "\u0378.example", "\u00ad", "é：80", "＊.example",
		"**.＊", "bücher.1", strings.Repeat("é", 64) + ".example", "[é]", "a\u0627.example"} {
		for _, access := range []Access{Allow, Deny} {
			if _, err := Compile(Settings{Domains: map[string]Access{bad: access}}); err == nil {
				t.Errorf("%s %q is accepted", access, bad)
			}
		}
		if _, err := Compile(Settings{Review: []string{bad}}); err == nil {
			t.Errorf("review of %q is accepted", bad)
		}
	}
	for pattern, hosts := range map[string][]string{
		"*.BU\u0308CHER.example": {"a.bücher.example", "a.b.xn--bcher-kva.example"},
		"**.bücher。example":      {"bücher.example", "a.xn--bcher-kva.example"},
		"*-x.bücher.example":     {"a-x.xn--bcher-kva.example", "a-x.ｂücher.example"},
		"*-x.straße.example:443": {"a-x.straße.example", "a-x.strasse.example"},
		"*-X.straße.EXAMPLE":     {"a-x.straße.example", "a-x.strasse.example"},
		"*-x.bücher。example。":    {"a-x.bücher.example"},
		"*-x.bücher.example．":    {"a-x.bücher.example"},
		"straße.example":         {"straße.example", "xn--strae-oqa.example", "strasse.example"},
		"１０.０.０.*":               {"10.0.0.1"},
		"**.ｅｘａｍｐｌｅ.com:４４３":     nil, // the port is ignored here
	} {
		r := compile(t, Settings{Domains: map[string]Access{"*": Allow, pattern: Deny}})
		for _, host := range hosts {
			if d := r.Decide(Query{Protocol: Connect, Method: "CONNECT", Host: host, Port: 443}); d.Reason != Denied {
				t.Errorf("%q denied as %q: %+v", host, pattern, d)
			}
		}
	}
	// A rule that opens opens only one name, and no local one in a spelling that is not
	// plain.
	r := compile(t, Settings{Domains: map[string]Access{"straße.example": Allow, "ｌｏｃａｌｈｏｓｔ": Allow, "１２７.0.0.1": Allow}})
	for host, allowed := range map[string]bool{"straße.example": true, "strasse.example": false, "localhost": false, "127.0.0.1": false} {
		if d := r.Decide(Query{Protocol: Connect, Method: "CONNECT", Host: host, Port: 443}); d.Allowed != allowed {
			t.Errorf("%q: %+v", host, d)
		}
	}
}

// A denied name is denied in every spelling.
func TestDeniedNameInEverySpelling(t *testing.T) {
	decompose := strings.NewReplacer("ñ", "n\u0303", "ü", "u\u0308", "é", "e\u0301", "ç", "c\u0327", "å", "a\u030a")
	widen := func(s string) string {
		return strings.Map(func(c rune) rune {
			if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '.' {
				c += '\uff01' - '!'
			}
			return c
		}, s)
	}
	spelling := func(t *rapid.T, name string) string {
		for _, change := range rapid.SliceOfN(rapid.SampledFrom([]func(string) string{
			strings.ToUpper, decompose.Replace, widen,
			func(s string) string { return strings.ReplaceAll(s, ".", "\u3002") },
		}), 0, 4).Draw(t, "changes") {
			name = change(name)
		}
		return name
	}
	letter := rapid.SampledFrom([]rune("abzñüéçåøあ中дж"))
	part := rapid.StringOfN(letter, 1, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		name := part.Draw(t, "first") + "." + part.Draw(t, "second") + ".example"
		written, asked := spelling(t, name), spelling(t, name)
		r, err := Compile(Settings{Domains: map[string]Access{"*": Allow, written: Deny}})
		if err != nil {
			t.Fatalf("%q: %v", written, err)
		}
		host, err := Normalize(asked)
		if err != nil || strings.ContainsFunc(host, func(c rune) bool { return c > unicode.MaxASCII }) {
			t.Fatalf("%q is %q, %v", asked, host, err)
		}
		if d := r.Decide(Query{Protocol: SocksTCP, Host: host, Port: 80}); d.Reason != Denied {
			t.Fatalf("%q denied as %q: %+v", asked, written, d)
		}
	})
}
