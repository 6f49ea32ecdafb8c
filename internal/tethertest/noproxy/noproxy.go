// Package noproxy has test cases about NO_PROXY. The tests of each package that connects to other hosts use them, so that all
// packages understand NO_PROXY alike.
package noproxy

// A Case is a value of NO_PROXY and an address.
type Case struct {
	List   string // NO_PROXY
	Host   string // lower case, an IPv6 address without brackets
	Port   uint16
	Direct bool // the address is reached without a proxy
}

// Cases has no local addresses: the proxy of a managed network reaches those directly in any case.
var Cases = []Case{
	{"", "a.example", 80, false},
	{"*", "a.example", 80, true},
	{"*", "203.0.113.1", 80, true},
	{"*", "2001:db8::1", 443, true},
	{"*:81", "a.example", 80, false},
	{"a.example", "a.example", 80, true},
	{"A.Example", "a.example", 443, true},
	{" x , a.example ", "a.example", 80, true},
	{"example", "a.example", 80, true},
	{".example", "a.example", 80, true},
	{".example", "example", 80, true},
	{"*.example", "a.example", 80, true},
	{"b.a.example,xa.example", "a.example", 80, false},
	{"a.example", "ba.example", 80, false},
	{"a.example:80", "a.example", 80, true},
	{"a.example:81", "a.example", 80, false},
	{"bücher.example", "xn--bcher-kva.example", 80, true},
	{"xn--bcher-kva.example", "xn--bcher-kva.example", 80, true},
	{"203.0.113.1", "203.0.113.1", 80, true},
	{"203.0.113.2", "203.0.113.1", 80, false},
	{"203.0.113.1:80", "203.0.113.1", 80, true},
	{"203.0.113.1:81", "203.0.113.1", 80, false},
	{"203.0.113.0/24", "203.0.113.1", 80, true},
	{"203.0.114.0/24", "203.0.113.1", 80, false},
	{"::ffff:203.0.113.1", "203.0.113.1", 80, true},
	{"113.1", "203.0.113.1", 80, false},
	{"2001:db8::1", "2001:db8::1", 80, true},
	{"[2001:db8::1]", "2001:db8::1", 80, true},
	{"[2001:db8::1]:80", "2001:db8::1", 80, true},
	{"[2001:db8::1]:81", "2001:db8::1", 80, false},
	{"2001:db8::/32", "2001:db8::1", 80, true},
	{",", "a.example", 80, false},
	{".", "a.example", 80, false},
}
