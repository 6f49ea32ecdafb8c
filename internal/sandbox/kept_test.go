package sandbox

import (
	"testing"

	"github.com/tetherexec/tether/wire"
)

// A policy that was encoded decides as before, and names the same rules.
func TestEncodedPolicyDecidesTheSame(t *testing.T) {
	p := &Policy{Network: wire.NetworkRestricted, Cwd: "/ws", rules: newRules()}
	for _, r := range []Rule{
		{Path: "/", Access: Read, Origin: FromEntry, Named: ":root"},
		{Path: "/ws", Access: Write, Origin: FromEntry, Named: "/ws"},
		{Path: "/ws/.git", Access: Read, Origin: FromProtected},
		{Path: "/ws/secret", Access: Deny, Origin: FromGlob, Named: "/ws/s*"},
		{Path: "/state", Access: Deny, Origin: FromPrivate},
	} {
		p.rules.add(r)
	}
	for name, p := range map[string]*Policy{"rules": p, "full write": {FullWrite: true, rules: p.rules}, "unrestricted": {unrestricted: true, rules: newRules()}} {
		decoded, err := DecodePolicy(p.Encode())
		if err != nil {
			t.Fatal(name, err)
		}
		if decoded.Network != p.Network || decoded.Cwd != p.Cwd {
			t.Errorf("%s: %+v", name, decoded)
		}
		for _, path := range []string{"/", "/etc/passwd", "/ws/file", "/ws/.git/config", "/ws/secret/x", "/state/y"} {
			access, rule := p.Decide(path)
			gotAccess, gotRule := decoded.Decide(path)
			if access != gotAccess || rule.String() != gotRule.String() {
				t.Errorf("%s: %s: %v, %v; want %v, %v", name, path, gotAccess, gotRule, access, rule)
			}
		}
	}
	whole := p.Encode()
	for n := range whole {
		if _, err := DecodePolicy(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are a policy", n, len(whole))
		}
	}
}
