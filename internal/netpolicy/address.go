package netpolicy

import "net/netip"

// reach says from where an address can be used.
type reach int

const (
	public  reach = iota
	private       // this machine or networks around it; AllowLocalBinding opens these
	special       // opened only by a pattern for the address itself
)

// An addressRange is a range of addresses and its purpose.
type addressRange struct {
	prefix netip.Prefix
	reach  reach
	what   string
}

func (l addressRange) String() string { return l.prefix.String() + " (" + l.what + ")" }

// locations are the ranges of addresses that are not public. The first one that contains
// an address counts. Compared with the ranges that other servers of this protocol
// refuse, the list has more of IPv6, and the services that give credentials to every
// program on a machine. AllowLocalBinding is about services of the user, so it does not
// open those.
var locations = parsed([]namedRange{
	{"0.0.0.0/32", private, "unspecified"}, // dialling it reaches loopback
	{"0.0.0.0/8", special, "this network"},
	{"10.0.0.0/8", private, "private"},
	{"100.100.100.200/32", special, "cloud metadata"},
	{"100.64.0.0/10", private, "carrier-grade NAT"},
	{"127.0.0.0/8", private, "loopback"},
	{"168.63.129.16/32", special, "cloud metadata"}, // public by number only
	{"169.254.0.0/16", special, "link-local"},       // most clouds' metadata
	{"172.16.0.0/12", private, "private"},
	{"192.0.0.0/24", special, "protocol assignments"},
	{"192.0.2.0/24", private, "documentation"},
	{"192.88.99.0/24", special, "6to4 relay"},
	{"192.168.0.0/16", private, "private"},
	{"198.18.0.0/15", private, "benchmarking"},
	{"198.51.100.0/24", private, "documentation"},
	{"203.0.113.0/24", private, "documentation"},
	{"224.0.0.0/4", special, "multicast"},
	{"240.0.0.0/4", special, "reserved"},

	{"::/128", private, "unspecified"},
	{"::1/128", private, "loopback"},
	{"64:ff9b:1::/48", special, "local NAT64"},
	{"2001::/23", special, "protocol assignments"}, // Teredo too
	{"2001:db8::/32", private, "documentation"},
	{"3fff::/20", private, "documentation"},
	{"fd00:ec2::254/128", special, "cloud metadata"},
	{"fd20:ce::254/128", special, "cloud metadata"},
	{"fc00::/7", private, "unique local"},
	{"fe80::/10", special, "link-local"},
	{"fec0::/10", private, "site-local"},
	{"ff00::/8", special, "multicast"},
})

// A namedRange is an addressRange before it is parsed.
type namedRange struct {
	prefix string
	reach  reach
	what   string
}

func parsed(list []namedRange) (all []addressRange) {
	for _, l := range list {
		all = append(all, addressRange{netip.MustParsePrefix(l.prefix), l.reach, l.what})
	}
	return all
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	unassigned    = addressRange{netip.MustParsePrefix("::/0"), special, "not global unicast"} // such addresses are not assigned yet
	publicAddress = addressRange{netip.MustParsePrefix("::/0"), public, "public"}
)

// locate returns the location of an address. An address that carries an IPv4 address
// to a translator or through a tunnel has the location of that one.
func locate(a netip.Addr) addressRange {
	for _, l := range locations {
		if l.prefix.Contains(a) {
			return l
		}
	}
	if inner, ok := embedded(a); ok {
		return locate(inner)
	}
	if a.Is6() && !globalUnicast.Contains(a) {
		return unassigned
	}
	return publicAddress
}

// embeddings are the prefixes that an IPv4 address follows. Mapped addresses need none:
// netip knows them.
var embeddings = []netip.Prefix{
	netip.MustParsePrefix("::ffff:0:0:0/96"), // translated
	netip.MustParsePrefix("64:ff9b::/96"),    // NAT64
	netip.MustParsePrefix("2002::/16"),       // 6to4
	netip.MustParsePrefix("::/96"),           // compatible
}

// embedded returns the IPv4 address inside an IPv6 one.
func embedded(a netip.Addr) (netip.Addr, bool) {
	if a.Is4In6() {
		return a.Unmap(), true
	}
	if !a.Is6() || a.IsLoopback() || a.IsUnspecified() {
		return netip.Addr{}, false
	}
	for _, p := range embeddings {
		if p.Contains(a) {
			b := a.As16()
			return netip.AddrFrom4([4]byte(b[p.Bits()/8:])), true
		}
	}
	return netip.Addr{}, false
}
