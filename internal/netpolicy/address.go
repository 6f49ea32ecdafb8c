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

func at(prefix string, r reach, what string) addressRange {
	return addressRange{netip.MustParsePrefix(prefix), r, what}
}

// locations are the ranges of addresses that are not public. The first one that contains
// an address counts. Compared with the ranges that other servers of this protocol
// refuse, the list has more of IPv6, and the services that give credentials to every
// program on a machine. AllowLocalBinding is about services of the user, so it does not
// open those.
var locations = []addressRange{
	at("0.0.0.0/32", private, "unspecified"), // dialling it reaches loopback
	at("0.0.0.0/8", special, "this network"),
	at("10.0.0.0/8", private, "private"),
	at("100.100.100.200/32", special, "cloud metadata"),
	at("100.64.0.0/10", private, "carrier-grade NAT"),
	at("127.0.0.0/8", private, "loopback"),
	at("168.63.129.16/32", special, "cloud metadata"), // public by number only
	at("169.254.0.0/16", special, "link-local"),       // most clouds' metadata
	at("172.16.0.0/12", private, "private"),
	at("192.0.0.0/24", special, "protocol assignments"),
	at("192.0.2.0/24", private, "documentation"),
	at("192.88.99.0/24", special, "6to4 relay"),
	at("192.168.0.0/16", private, "private"),
	at("198.18.0.0/15", private, "benchmarking"),
	at("198.51.100.0/24", private, "documentation"),
	at("203.0.113.0/24", private, "documentation"),
	at("224.0.0.0/4", special, "multicast"),
	at("240.0.0.0/4", special, "reserved"),

	at("::/128", private, "unspecified"),
	at("::1/128", private, "loopback"),
	at("64:ff9b:1::/48", special, "local NAT64"),
	at("2001::/23", special, "protocol assignments"), // Teredo too
	at("2001:db8::/32", private, "documentation"),
	at("3fff::/20", private, "documentation"),
	at("fd00:ec2::254/128", special, "cloud metadata"),
	at("fd20:ce::254/128", special, "cloud metadata"),
	at("fc00::/7", private, "unique local"),
	at("fe80::/10", special, "link-local"),
	at("fec0::/10", private, "site-local"),
	at("ff00::/8", special, "multicast"),
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	unassigned    = at("::/0", special, "not global unicast") // such addresses are not assigned yet
	publicAddress = at("::/0", public, "public")
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
