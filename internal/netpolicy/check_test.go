package netpolicy

import "testing"

// A text that CheckHostPort accepts is a pattern that a person may write, for one host and one port.
func TestCheckHostPort(t *testing.T) {
	for _, text := range []string{"example.com:443", "a_b.example:1", "192.0.2.1:65535", "[2001:db8::1]:443", "localhost:80"} {
		if err := CheckHostPort(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if err := CheckPattern(text, Allow); err != nil {
			t.Errorf("%q is not a pattern: %v", text, err)
		}
		p, err := parsePattern(text, true)
		if err != nil || p.port == 0 || !p.names() {
			t.Errorf("%q is the pattern %+v, %v", text, p, err)
		}
	}
	for _, text := range []string{
		"", "example.com", "example.com:0", "example.com:65536", "example.com:+1", "example.com:01", "example.com:*", ":443", "*:443", "*.com:443", "**.com:443", "a?.com:443",
		"a.example\n*:443", "a.example:443\n*", "a.example\r:443", " a.example:443", "#a:443", "EXAMPLE.com:443", "bücher.example:443", "example.com.:443",
		"127.1:80", "2001:db8::1:443", "[fe80::1%eth0]:443", "[example.com]:443", "http://a:80",
	} {
		if err := CheckHostPort(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
