package netpolicy

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
)

// A table is testdata/reference.json, which describes itself.
type table struct {
	Zone  map[string]string
	Cases []struct {
		Domains  map[string]Access
		Review   []string
		Local    bool
		Mode     Mode
		Ask      bool
		Requests [][]string
	}
	Errors []struct {
		Pattern string
		Access  Access
		Error   string
	}
}

func readTable(t *testing.T) table {
	t.Helper()
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var all table
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestDecisionsMatchReference(t *testing.T) {
	all := readTable(t)
	for _, c := range all.Cases {
		rules, err := Compile(Settings{Mode: c.Mode, Domains: c.Domains, Review: c.Review, AllowLocalBinding: c.Local})
		if err != nil {
			t.Errorf("%v: %v", c.Domains, err)
			continue
		}
		for _, r := range c.Requests {
			want := r[len(r)-1]
			if got := verdict(t, rules, r[0], all.Zone, c.Ask); got != want {
				t.Errorf("%v local %v mode %q: %s: got %q, want %q", c.Domains, c.Local, c.Mode, r[0], got, want)
			}
		}
	}
}

func TestErrorsMatchReference(t *testing.T) {
	for _, e := range readTable(t).Errors {
		for _, access := range []Access{Allow, Deny} {
			if e.Access != "" && e.Access != access {
				continue
			}
			_, err := Compile(Settings{Domains: map[string]Access{e.Pattern: access, "other.example": Allow}})
			if err == nil || err.Error() != e.Error {
				t.Errorf("%s %q: got %v, want %s", access, e.Pattern, err, e.Error)
			}
		}
	}
}

// verdict decides about a request as a proxy does.
func verdict(t *testing.T, rules *Rules, request string, zone map[string]string, ask bool) string {
	t.Helper()
	q, ok := query(t, request)
	if !ok {
		return "malformed"
	}
	asked := ""
	d := rules.Decide(q)
	if d.Open && ask {
		asked = " asked"
		d = Decision{Allowed: true}
	}
	if d.Allowed {
		address, err := netip.ParseAddr(q.Host)
		if err != nil {
			address = netip.IPv4Unspecified() // the address of an unknown name may be any
			if found, ok := zone[q.Host]; ok {
				address = netip.MustParseAddr(found)
			}
		}
		d = rules.Address(q, address)
	}
	if d.Allowed {
		return "allow" + asked
	}
	return d.Reason + asked
}

func query(t *testing.T, request string) (Query, bool) {
	t.Helper()
	method, target, _ := strings.Cut(request, " ")
	if _, after, ok := strings.Cut(target, "@"); ok {
		target = after
	}
	q := Query{Protocol: HTTP, Method: method, Port: 80}
	if method == "CONNECT" || method == "SOCKS" {
		q.Protocol = Connect
		if method == "SOCKS" {
			q.Protocol, q.Method = SocksTCP, ""
		}
		host, port, err := net.SplitHostPort(target)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			t.Fatal(err)
		}
		target, q.Port = host, uint16(n)
	}
	var err error
	q.Host, err = Normalize(target)
	return q, err == nil
}
