package host

import (
	"encoding/base64"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Proxies are the proxies that an environment names, and the hosts that are reached without one.
type Proxies struct {
	HTTP  *Proxy // HTTP_PROXY
	HTTPS *Proxy // HTTPS_PROXY
	All   *Proxy // ALL_PROXY

	direct []exception // NO_PROXY
}

// ProxiesOf reads HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY from NAME=value entries. If a variable is set in upper
// and in lower case, the upper case one counts, even if it is empty. A proxy that cannot be used is logged and ignored.
func ProxiesOf(env []string, log *slog.Logger) *Proxies {
	p := &Proxies{
		HTTPS: newProxy(env, "HTTPS_PROXY", log),
		All:   newProxy(env, "ALL_PROXY", log),
	}
	if _, cgi := lookup(env, "REQUEST_METHOD"); !cgi { // in a CGI program HTTP_PROXY is the header Proxy of a request
		p.HTTP = newProxy(env, "HTTP_PROXY", log)
	}
	list, _ := lookup(env, "NO_PROXY", "no_proxy")
	for entry := range strings.SplitSeq(list, ",") {
		if x, ok := parseException(entry); ok {
			p.direct = append(p.direct, x)
		}
	}
	return p
}

// lookup returns the value of the first of these variables that is set. If one is set twice, its first value counts,
// as for getenv.
func lookup(env []string, names ...string) (string, bool) {
	for _, name := range names {
		for _, entry := range env {
			if n, value, ok := strings.Cut(entry, "="); ok && n == name {
				return value, true
			}
		}
	}
	return "", false
}

// For returns the proxy for a connection to address, a host and a port, or nil. The scheme of the URL selects the
// variable: https and wss use HTTPS_PROXY, others HTTP_PROXY, and all use ALL_PROXY if theirs is not set. Loopback
// addresses use the proxy too, unless NO_PROXY names them.
func (p *Proxies) For(scheme, address string) *Proxy {
	proxy := p.HTTP
	if scheme == "https" || scheme == "wss" {
		proxy = p.HTTPS
	}
	if proxy == nil {
		proxy = p.All
	}
	if proxy == nil || p.Direct(address) {
		return nil
	}
	return proxy
}

// Direct reports whether NO_PROXY covers an address, a host and a port.
func (p *Proxies) Direct(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	host = strings.TrimSuffix(host, ".")
	ip, _ := netip.ParseAddr(host)
	return slices.ContainsFunc(p.direct, func(x exception) bool { return x.covers(host, ip.Unmap(), port) })
}

// An exception is an entry of NO_PROXY: all hosts, a range of addresses, or a name with all names below it. With a
// port it is for that port only.
type exception struct {
	all       bool
	addresses netip.Prefix // if valid, only these addresses
	name      string
	port      string // empty: any
}

// parseException parses an entry: "*", an address with or without brackets, a range of addresses, or a name, which may
// have a dot or "*." before it. A port may follow after a colon.
func parseException(entry string) (x exception, ok bool) {
	entry = strings.ToLower(strings.TrimSpace(entry))
	if host, port, err := net.SplitHostPort(entry); err == nil {
		entry, x.port = host, port
	}
	entry = strings.Trim(entry, "[]")
	if entry == "*" {
		x.all = true
		return x, true
	}
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		x.addresses = prefix
		return x, true
	}
	if ip, err := netip.ParseAddr(entry); err == nil {
		ip = ip.Unmap()
		x.addresses = netip.PrefixFrom(ip, ip.BitLen())
		return x, true
	}
	x.name = strings.Trim(strings.TrimPrefix(entry, "*"), ".")
	if !IsASCII(x.name) {
		name, err := ToASCII(x.name)
		if err != nil {
			return exception{}, false
		}
		x.name = name
	}
	return x, x.name != ""
}

// covers reports whether the exception covers a host. ip is valid if the host is an address.
func (x *exception) covers(host string, ip netip.Addr, port string) bool {
	switch {
	case x.port != "" && x.port != port:
		return false
	case x.all:
		return true
	case x.addresses.IsValid() || ip.IsValid():
		return x.addresses.Contains(ip)
	}
	return host == x.name || strings.HasSuffix(host, "."+x.name)
}

// A Proxy is an HTTP or SOCKS5 proxy.
type Proxy struct {
	scheme   string // http, https, socks5
	hostname string
	address  string // what to dial
	user     *url.Userinfo
}

// newProxy reads one variable. A value that cannot be used is ignored, as in the reference, but reported.
func newProxy(env []string, variable string, log *slog.Logger) *Proxy {
	value, _ := lookup(env, variable, strings.ToLower(variable))
	value = strings.TrimSpace(value)
	if value == "" {
		return nil
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" {
		log.Warn("proxy variable is not a URL and is ignored", "variable", variable)
		return nil
	}
	usual := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	if usual == "" {
		log.Warn("proxy variable names an unknown kind of proxy and is ignored", "variable", variable, "scheme", u.Scheme)
		return nil
	}
	port := u.Port()
	if port == "" {
		port = usual
	}
	return &Proxy{
		scheme: strings.TrimSuffix(u.Scheme, "h"), hostname: u.Hostname(), user: u.User,
		address: net.JoinHostPort(u.Hostname(), port),
	}
}

// Forwards reports whether the proxy forwards plain HTTP requests in absolute form. A SOCKS5 proxy only makes tunnels.
func (p *Proxy) Forwards() bool { return p.scheme != "socks5" }

// Address is the host and port where the proxy listens.
func (p *Proxy) Address() string { return p.address }

// URL is the proxy's URL with user and password, as http.Transport needs it.
func (p *Proxy) URL() *url.URL { return &url.URL{Scheme: p.scheme, User: p.user, Host: p.address} }

// Authorization is the value of the header Proxy-Authorization, empty if the variable has no user.
func (p *Proxy) Authorization() string {
	if p.user == nil {
		return ""
	}
	password, _ := p.user.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(p.user.Username()+":"+password))
}
