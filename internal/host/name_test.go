package host

import (
	"strings"
	"testing"
)

func TestParseIPv4(t *testing.T) {
	for in, want := range map[string]string{
		"127.0.0.1": "127.0.0.1", "127.1": "127.0.0.1", "127.0.1": "127.0.0.1", "2130706433": "127.0.0.1", "0x7f.1": "127.0.0.1",
		"0177.0.0.01": "127.0.0.1", "0x7f000001": "127.0.0.1", "4294967295": "255.255.255.255", "0": "0.0.0.0", "0x": "0.0.0.0",
		"1.2.3": "1.2.0.3",
	} {
		if got, ok := ParseIPv4(in); !ok || got.String() != want {
			t.Errorf("%q: %v, %v, want %s", in, got, ok, want)
		}
		if !EndsInNumber(in) || !EndsInNumber(in+".") {
			t.Errorf("%q does not end in a number", in)
		}
	}
	for _, in := range []string{"", ".", "1.", "1.2.3.4.5", "256.1.1.1", "08", "4294967296", "1.2.3.256", "+1", "1_0", "-1", "a.1", "1..2", "::1", "0x100000000000000000"} {
		if got, ok := ParseIPv4(in); ok {
			t.Errorf("%q: %v, want none", in, got)
		}
	}
	for _, in := range []string{"", ".", "a", "1.a", "1.0xg", "a."} {
		if EndsInNumber(in) {
			t.Errorf("%q ends in a number", in)
		}
	}
}

func TestToASCII(t *testing.T) {
	for in, want := range map[string]string{"bücher.example": "xn--bcher-kva.example", "１２７。１": "127.1", "straße": "xn--strae-oqa", "a_b-.é": "a_b-.xn--9ca"} {
		if got, err := ToASCII(in); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	if got, err := ToASCII2003("straße"); err != nil || got != "strasse" {
		t.Errorf("by IDNA 2003: %q, %v", got, err)
	}
	for _, in := range []string{"\xff", "a\ufffd", "\u0378", "a\u0627"} {
		if got, err := ToASCII(in); err == nil {
			t.Errorf("%q: %q, want an error", in, got)
		}
	}
}

func TestValidName(t *testing.T) {
	for in, want := range map[string]bool{
		"a": true, "a_b.c-d": true, "xn--bcher-kva": true, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false,
		"": false, "a.": false, ".a": false, "a..b": false, "-a": false, "a-": false, "A": false, "é": false, "a b": false,
		"a.1": false, "a.0x1f": false, "1.a": true, strings.Repeat("a.", 126) + "b": true, strings.Repeat("a.", 127) + "b": false,
	} {
		if got := ValidName(in); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}
