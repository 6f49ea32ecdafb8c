package netpolicy

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/host"
	"pgregory.net/rapid"
)

func compile(t testing.TB, s Settings) *Rules {
	t.Helper()
	r, err := Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// decideBoth is Decide and, if that allows, Address.
func decideBoth(r *Rules, host string, port uint16, a netip.Addr) Decision {
	q := Query{Protocol: Connect, Method: "CONNECT", Host: host, Port: port}
	d := r.Decide(q)
	if d.Allowed {
		at := r.Address(q, a)
		at.Rule = max(at.Rule, d.Rule)
		return at
	}
	return d
}

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"Example.COM.":                  "example.com",
		"under_score.example":           "under_score.example",
		"a--b":                          "a--b",
		"8.8.8.8":                       "8.8.8.8",
		"8.8.8.8.":                      "8.8.8.8",
		"134744072":                     "8.8.8.8",
		"0X8.010.2056":                  "8.8.8.8",
		"127.1":                         "127.0.0.1",
		"0":                             "0.0.0.0",
		"4294967295":                    "255.255.255.255",
		"[::1]":                         "::1",
		"0:0:0:0:0:0:0:1":               "::1",
		"[2001:DB8::0:1]":               "2001:db8::1",
		"[::ffff:7f00:1]":               "127.0.0.1",
		"::FFFF:8.8.8.8":                "8.8.8.8",
		"8.8.8.8.example":               "8.8.8.8.example",
		strings.Repeat("a.", 126) + "b": strings.Repeat("a.", 126) + "b",
	} {
		if got, err := Normalize(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", ".", "a..", "a..b", ".a", "-a", "a-.b", "a b", "a\x00", "a%2eb", "*.a", "a:80", "a/b", "u@a",
		"[", "[]", "[::1", "::1]", "[::1]:80", "[8.8.8.8]", "[a]", "fe80::1%lo", "[fe80::1%lo]", "1.2.3.4.5", "256.1.1.1", "08.8.8.8", "4294967296", "a.1", "a.0x", "a.0x1f",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "b"} {
		if got, err := Normalize(in); err == nil {
			t.Errorf("%q: got %q, want an error", in, got)
		}
	}
}

func TestPortsInPatterns(t *testing.T) {
	public := netip.MustParseAddr("11.0.0.1")
	r := compile(t, Settings{Ports: true, Domains: map[string]Access{
		"*.internal:443": Allow, "any.example": Allow, "star.example:*": Allow, "[::1]:8080": Allow, "127.0.0.1:80": Allow, "two.example:1": Allow, "TWO.example:2": Allow, "*:25": Deny, "any.example:81": Deny}})
	for _, c := range []struct {
		host string
		port uint16
		at   netip.Addr
		want string
	}{
		{"a.internal", 443, public, ""}, {"a.internal", 80, public, NotAllowed}, {"any.example", 80, public, ""}, {"any.example", 81, public, Denied},
		{"any.example", 25, public, Denied}, {"star.example", 7, public, ""}, {"two.example", 1, public, ""}, {"two.example", 2, public, ""}, {"two.example", 3, public, NotAllowed},
		{"::1", 8080, netip.MustParseAddr("::1"), ""}, {"::1", 80, netip.MustParseAddr("::1"), NotAllowedLocal},
		{"127.0.0.1", 80, netip.MustParseAddr("127.0.0.1"), ""}, {"127.0.0.1", 81, netip.MustParseAddr("127.0.0.1"), NotAllowedLocal},
	} {
		if d := decideBoth(r, c.host, c.port, c.at); d.Reason != c.want || d.Allowed != (c.want == "") {
			t.Errorf("%s:%d: got %+v, want %q", c.host, c.port, d, c.want)
		}
	}
	for _, p := range []string{"a.example:0", "a.example:65536", "a.example:x", "[::1]:99999", "a.example:-1"} {
		if _, err := Compile(Settings{Ports: true, Domains: map[string]Access{p: Allow}}); err == nil {
			t.Errorf("%s: no error", p)
		}
	}
}

func TestDecisionNamesRule(t *testing.T) {
	r := compile(t, Settings{Domains: map[string]Access{" *.Example ": Allow, "bad.example": Deny, "11.9.*": Deny}, Review: []string{"ask.example"}})
	for host, want := range map[string]Decision{
		"a.example":   {Allowed: true, Source: Baseline, Rule: "*.Example"},
		"bad.example": {Source: Baseline, Reason: Denied, Rule: "bad.example"},
		"ask.example": {Open: true, Source: Baseline, Reason: NotAllowed, Rule: "ask.example"},
		"other":       {Open: true, Source: Baseline, Reason: NotAllowed},
		"127.0.0.1":   {Source: Baseline, Reason: NotAllowedLocal, Rule: "127.0.0.0/8 (loopback)"},
	} {
		if got := r.Decide(Query{Protocol: HTTP, Method: "GET", Host: host, Port: 80}); got != want {
			t.Errorf("%s: got %+v, want %+v", host, got, want)
		}
	}
	q := Query{Protocol: HTTP, Method: "GET", Host: "a.example", Port: 80}
	for address, want := range map[string]Decision{
		"11.0.0.1":           {Allowed: true, Source: Baseline},
		"11.9.0.1":           {Source: Baseline, Reason: Denied, Rule: "11.9.*"},
		"64:ff9b::a00:1":     {Source: Baseline, Reason: NotAllowedLocal, Rule: "10.0.0.0/8 (private)"},
		"fe80::1%eth0":       {Source: Baseline, Reason: NotAllowedLocal, Rule: "fe80::/10 (link-local)"},
		"::ffff:169.254.0.1": {Source: Baseline, Reason: NotAllowedLocal, Rule: "169.254.0.0/16 (link-local)"},
	} {
		if got := r.Address(q, netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: got %+v, want %+v", address, got, want)
		}
	}
	if r.Address(q, netip.Addr{}).Allowed {
		t.Error("no address is allowed")
	}
}

// An upstream proxy, or a resolver, cannot redirect an address.
func TestAddressCannotBeRedirected(t *testing.T) {
	r := compile(t, Settings{AllowLocalBinding: true, Domains: map[string]Access{"8.8.8.8": Allow}})
	q := Query{Protocol: SocksTCP, Host: "8.8.8.8", Port: 53}
	if !r.Address(q, netip.MustParseAddr("::ffff:8.8.8.8")).Allowed {
		t.Error("the address itself is refused")
	}
	if r.Address(q, netip.MustParseAddr("8.8.4.4")).Allowed {
		t.Error("another address is allowed")
	}
}

func TestRareForms(t *testing.T) {
	r := compile(t, Settings{Domains: map[string]Access{"localhost": Allow, "2606:4700::1%lo": Allow, "11.*": Allow, "::ffff:11.9.9.*": Deny}})
	for _, c := range []struct{ host, at, want string }{
		{"localhost", "127.0.0.5", ""}, {"localhost", "::1", ""}, {"localhost", "10.0.0.1", NotAllowedLocal}, {"localhost", "0.0.0.0", NotAllowedLocal}, {"localhost", "11.0.0.1", ""},
		{"2606:4700::1", "2606:4700::1", NotAllowed}, // no request has a zone, so the pattern matches none
		{"11.9.8.1", "11.9.8.1", ""}, {"11.9.9.1", "11.9.9.1", Denied},
	} {
		if d := decideBoth(r, c.host, 80, netip.MustParseAddr(c.at)); d.Reason != c.want || d.Allowed != (c.want == "") {
			t.Errorf("%s at %s: got %+v, want %q", c.host, c.at, d, c.want)
		}
	}
}

func TestUnnormalizedHostsAreRefused(t *testing.T) {
	r := compile(t, Settings{Domains: map[string]Access{"*": Allow, "bad.example": Deny}})
	for _, host := range []string{"BAD.example", "bad.example.", "[::1]", "0x7f.1", "bad.example\x00", "fe80::1%lo", ""} {
		if d := r.Decide(Query{Protocol: HTTP, Method: "GET", Host: host, Port: 80}); d.Allowed || d.Open {
			t.Errorf("%q: %+v", host, d)
		}
	}
}

func TestRanges(t *testing.T) {
	for address, want := range map[string]reach{
		"0.0.0.0": private, "0.1.2.3": special, "1.0.0.1": public, "9.255.255.255": public, "10.0.0.0": private, "10.255.255.255": private, "11.0.0.0": public,
		"100.63.255.255": public, "100.64.0.0": private, "100.127.255.255": private, "100.128.0.0": public, "100.100.100.200": special,
		"126.255.255.255": public, "127.0.0.0": private, "127.255.255.255": private, "128.0.0.0": public, "168.63.129.16": special,
		"169.253.255.255": public, "169.254.0.0": special, "169.254.169.254": special, "169.255.0.0": public,
		"172.15.255.255": public, "172.16.0.0": private, "172.31.255.255": private, "172.32.0.0": public, "192.0.0.0": special, "192.0.0.192": special, "192.0.1.0": public,
		"192.0.2.255": private, "192.0.3.0": public, "192.88.99.1": special, "192.168.0.0": private, "192.169.0.0": public, "198.17.255.255": public, "198.18.0.0": private,
		"198.19.255.255": private, "198.20.0.0": public, "198.51.100.1": private, "203.0.113.1": private, "223.255.255.255": public, "224.0.0.0": special,
		"239.255.255.255": special, "240.0.0.0": special, "255.255.255.255": special,
		"::": private, "::1": private, "::2": special, "::7f00:1": private, "::808:808": public, "::ffff:10.0.0.1": private, "::ffff:8.8.8.8": public,
		"::ffff:0:127.0.0.1": private, "64:ff9b::7f00:1": private, "64:ff9b::a9fe:a9fe": special, "64:ff9b::808:808": public, "64:ff9b:1::808:808": special,
		"100::5": special, "2001::5": special, "2001:2::5": special, "2001:1ff::": special, "2001:200::": public, "2001:db8::5": private, "2001:db9::5": public,
		"2002:7f00:1::": private, "2002:a9fe:a9fe::": special, "2002:808:808::": public, "3fff::5": private, "3fff:1000::": public, "5f00::5": special, "fc00::": private,
		"fd00:ec2::254": special, "fdff:ffff::": private, "fe00::1": special, "fe80::5": special, "febf::1": special, "fec0::5": private, "ff02::1": special, "ff0e::1": special,
		"2606:4700::1": public, "4000::1": special,
	} {
		if got := locate(netip.MustParseAddr(address)); got.reach != want {
			t.Errorf("%s: got %v (%v), want %v", address, got.reach, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	many, globs := map[string]Access{}, map[string]Access{}
	for i := range MaxPatterns {
		many[fmt.Sprintf("h%d.example", i)] = Allow
	}
	for i := range MaxGlobs {
		globs[fmt.Sprintf("*h%d.example", i)] = Deny
	}
	compile(t, Settings{Domains: many})
	compile(t, Settings{Domains: globs})
	globs["*one.more"] = Allow
	for name, s := range map[string]Settings{
		"patterns": {Domains: many, Review: []string{"one.more"}},
		"globs":    {Domains: globs},
		"length":   {Domains: map[string]Access{strings.Repeat("a", MaxPatternLength+1): Deny}},
		"mode":     {Mode: "Full"},
		"access":   {Domains: map[string]Access{"a.example": "ask"}},
		"review":   {Review: []string{"a/b"}},
	} {
		if _, err := Compile(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// label and the following generators make hosts and patterns that often
// match.
var (
	label     = rapid.SampledFrom([]string{"a", "b", "ab", "x-1", "_s"})
	name      = rapid.Map(rapid.SliceOfN(label, 1, 4), func(l []string) string { return strings.Join(l, ".") })
	wildLabel = rapid.SampledFrom([]string{"a", "b", "ab", "*", "a*", "?", "?b", "x-1", "*s"})
	wildName  = rapid.Map(rapid.SliceOfN(wildLabel, 1, 4), func(l []string) string { return strings.Join(l, ".") })
	written   = rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "*.", "**."}).Draw(t, "scope") + wildName.Draw(t, "name")
	})
)

func TestDenyBeatsAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		denied, host := written.Draw(t, "denied"), name.Draw(t, "host")
		s := Settings{Domains: map[string]Access{denied: Deny}, AllowLocalBinding: true}
		alone, err := Compile(s)
		if err != nil {
			t.Skip() // * cannot be denied
		}
		for _, p := range rapid.SliceOfN(written, 0, 5).Draw(t, "allowed") {
			if p != denied {
				s.Domains[p] = Allow
			}
		}
		s.Domains[strings.ToUpper(host)] = Allow
		all, err := Compile(s)
		if err != nil {
			t.Fatal(err)
		}
		q := Query{Protocol: Connect, Method: "CONNECT", Host: host, Port: 443}
		before, after := alone.Decide(q), all.Decide(q)
		if before.Reason == Denied && after != before {
			t.Fatalf("denied alone, and with more allowed: %+v", after)
		}
		if after.Reason != Denied && !after.Allowed && s.Domains[strings.ToUpper(host)] == Allow {
			t.Fatalf("allowed, and denied by nothing: %+v", after)
		}
	})
}

// spellings returns forms in which a program may write an IPv4 address.
func spellings(b [4]byte) []string {
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	quad := fmt.Sprintf("%d.%d.%d.%d", b[0], b[1], b[2], b[3])
	return []string{quad, quad + ".", fmt.Sprint(n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0X%X.", n), fmt.Sprintf("0%o", n),
		fmt.Sprintf("0x%x.0%o.%d", b[0], b[1], n&0xffff), fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("0%o.0x%02x.%d.0x%X", b[0], b[1], b[2], b[3]),
		"[::ffff:" + quad + "]", fmt.Sprintf("[0:0:0:0:0:FFFF:%x:%x]", n>>16, n&0xffff), "::ffff:" + quad, "[64:ff9b::" + quad + "]",
		fmt.Sprintf("[2002:%x:%x::1]", n>>16, n&0xffff), "[::ffff:0:" + quad + "]"}
}

func TestDeniedAddressStaysDeniedInEverySpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))
		forms := spellings(b)
		address := netip.AddrFrom4(b)
		written := rapid.SampledFrom(append(forms[:12:12], fmt.Sprintf("%d.%d.%d.*", b[0], b[1], b[2]))).Draw(t, "written")
		r, err := Compile(Settings{AllowLocalBinding: true, Domains: map[string]Access{"*": Allow, address.String(): Allow, written: Deny}})
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range forms {
			host, err := Normalize(form)
			if err != nil {
				t.Fatal(form, err)
			}
			if d := r.Decide(Query{Protocol: SocksTCP, Host: host, Port: 80}); d.Reason != Denied {
				t.Fatalf("%s denied as %s: %+v", form, written, d)
			}
		}
		if d := r.Address(Query{Protocol: SocksTCP, Host: "a.example", Port: 80}, address); d.Reason != Denied {
			t.Fatalf("a name that leads to it: %+v", d)
		}
	})
}

func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"Example.COM.", "[::1]", "0x7f.1", "::ffff:1.2.3.4", "a..b", "[fe80::1%25lo]", "2130706433", "xn--a", "\x00", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spelling string) {
		once, err := Normalize(spelling)
		if err != nil {
			return
		}
		twice, err := Normalize(once)
		if err != nil || twice != once {
			t.Fatalf("%q, then %q, then %q, %v", spelling, once, twice, err)
		}
		if upper, err := Normalize(strings.ToUpper(once)); err != nil || upper != once {
			t.Fatalf("%q in upper case: %q, %v", once, upper, err)
		}
		if a, err := netip.ParseAddr(once); err == nil {
			if a.String() != once || a.Is4In6() || a.Zone() != "" {
				t.Fatalf("%q is not the shortest form", once)
			}
		} else if !host.ValidName(once) {
			t.Fatalf("%q is neither", once)
		}
		// Every host can be written as a pattern, and then matches.
		r, err := Compile(Settings{AllowLocalBinding: true, Domains: map[string]Access{"*": Allow, once: Deny}})
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Decide(Query{Protocol: HTTP, Method: "GET", Host: spelling, Port: 80}); d.Reason != Denied {
			t.Fatalf("%q denied as %q: %+v", spelling, once, d)
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"*", "**.a", "*.a:80", "[::1]:80", "[*]", "a.*.b", "fe80::1%lo", "münchen.example", "::ffff:1.2.*", "[", "0x7f.1", "**.[*]:x"} {
		f.Add(s, "a.b", uint16(80), true)
	}
	f.Fuzz(func(t *testing.T, text, host string, port uint16, ports bool) {
		rules := map[Access]*Rules{}
		for _, access := range []Access{Allow, Deny} {
			r, err := Compile(Settings{Ports: ports, AllowLocalBinding: true, Domains: map[string]Access{text: access}})
			if err != nil {
				continue
			}
			rules[access] = r
		}
		q := Query{Protocol: SocksTCP, Host: host, Port: port}
		if rules[Deny] == nil && rules[Allow] != nil {
			if p, err := parsePattern(text, ports); err != nil || !p.global() {
				t.Fatalf("%q can be allowed but not denied", text)
			}
			return
		}
		if rules[Allow] == nil {
			if rules[Deny] != nil {
				t.Fatalf("%q can be denied but not allowed", text)
			}
			return
		}
		allowed, denied := rules[Allow].Decide(q), rules[Deny].Decide(q)
		if allowed.Allowed && denied.Reason != Denied {
			t.Fatalf("%q allows %q but does not deny it: %+v", text, host, denied)
		}
		if p, err := parsePattern(text, ports); err != nil || !strings.Contains(text, p.pattern) {
			t.Fatalf("%q: the rule is %q, %v", text, p.pattern, err)
		}
	})
}
