package web

import (
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// A proxy stands between this machine and some targets.
type proxy struct {
	scheme   string // http, https, socks5
	hostname string
	address  string // what to dial
	user     *url.Userinfo
	auth     string // value of proxy-authorization, or empty
}

// proxies says which proxy a target is reached through, from the environment.
// Loopback is no exception: only NO_PROXY makes one.
type proxies struct {
	http, https *proxy // nil: direct

	direct        []netip.Prefix // of NO_PROXY: addresses
	directDomains []string       // of NO_PROXY: domains, with all below them; * is every name
}

// newProxies reads HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. The upper
// case name counts when both are set.
func newProxies(env environment, log *slog.Logger) *proxies {
	all := newProxy(env, log, "ALL_PROXY", "all_proxy")
	p := &proxies{http: all, https: all}
	if _, cgi := env["REQUEST_METHOD"]; !cgi { // there a caller sets HTTP_PROXY, by a header Proxy
		if own := newProxy(env, log, "HTTP_PROXY", "http_proxy"); own != nil {
			p.http = own
		}
	}
	if own := newProxy(env, log, "HTTPS_PROXY", "https_proxy"); own != nil {
		p.https = own
	}
	for entry := range strings.SplitSeq(env.first("NO_PROXY", "no_proxy"), ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			p.direct = append(p.direct, prefix)
		} else if addr, err := netip.ParseAddr(entry); err == nil {
			p.direct = append(p.direct, netip.PrefixFrom(addr, addr.BitLen()))
		} else if domain := strings.TrimPrefix(entry, "."); domain != "" {
			p.directDomains = append(p.directDomains, domain)
		}
	}
	return p
}

// newProxy reads one variable. One that cannot be understood is ignored, as
// by the reference, but not in silence.
func newProxy(env environment, log *slog.Logger, names ...string) *proxy {
	value := strings.TrimSpace(env.first(names...))
	if value == "" {
		return nil
	}
	if !strings.Contains(value, "://") {
		value = "http://" + value
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" {
		log.Warn("proxy variable is no URL and is ignored", "variable", names[0])
		return nil
	}
	p := &proxy{scheme: u.Scheme, hostname: u.Hostname(), user: u.User}
	port := u.Port()
	switch usual := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}; {
	case usual[u.Scheme] == "":
		log.Warn("proxy variable names an unknown kind of proxy and is ignored", "variable", names[0], "scheme", u.Scheme)
		return nil
	case port == "":
		port = usual[u.Scheme]
	}
	p.scheme = strings.TrimSuffix(p.scheme, "h")
	p.address = net.JoinHostPort(p.hostname, port)
	if u.User != nil {
		password, _ := u.User.Password()
		p.auth = basicAuth(u.User.Username(), password)
	}
	return p
}

// forTarget returns the proxy for a target, or nil.
func (p *proxies) forTarget(t *target) *proxy {
	chosen := p.http
	if t.scheme == "https" {
		chosen = p.https
	}
	if chosen == nil || p.isDirect(t.hostname()) {
		return nil
	}
	return chosen
}

// isDirect tells whether NO_PROXY names the host.
func (p *proxies) isDirect(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return slices.ContainsFunc(p.direct, func(d netip.Prefix) bool { return d.Contains(addr) })
	}
	return slices.ContainsFunc(p.directDomains, func(d string) bool {
		return d == "*" || host == d || strings.HasSuffix(host, "."+d)
	})
}
