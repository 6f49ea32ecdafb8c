package netproxy

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// proxyVariables are the names, in upper case, under which programs look for a proxy.
var proxyVariables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "WS_PROXY", "WSS_PROXY", "ALL_PROXY", "FTP_PROXY",
	"YARN_HTTP_PROXY", "YARN_HTTPS_PROXY", "NPM_CONFIG_HTTP_PROXY", "NPM_CONFIG_HTTPS_PROXY", "NPM_CONFIG_PROXY",
	"BUNDLE_HTTP_PROXY", "BUNDLE_HTTPS_PROXY", "PIP_PROXY", "DOCKER_HTTP_PROXY", "DOCKER_HTTPS_PROXY",
}

// attributionVariable is a token by which proxies distinguish processes. Processes do
// not see it.
const attributionVariable = "CODEX_NETWORK_PROXY_ATTRIBUTION"

// Why an environment has no usable proxy.
var (
	errNoProxies   = errors.New("managed proxy mode requires proxy environment variables")
	errNoEndpoints = errors.New("managed proxy mode requires parseable loopback proxy endpoints")
	errToken       = fmt.Errorf("managed proxy mode requires an attribution of 1 to %d bytes", maxToken)
)

// Endpoints are the proxies on the host's loopback that an environment names. A process
// with a network of its own needs one listener for each.
type Endpoints struct {
	Addresses []netip.AddrPort
	ports     []stage.Port
	token     string // of attributionVariable; may be empty
}

// FindEndpoints finds the proxies in an environment, and returns the rest of it,
// which is for the process. An environment without a proxy is an error.
func FindEndpoints(env []string) (rest []string, e *Endpoints, err error) {
	e = &Endpoints{}
	named := false
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if name == attributionVariable {
			if value == "" || len(value) > maxToken {
				return nil, nil, errToken // without it the proxy would not know whose connections these are
			}
			e.token = value
			continue
		}
		rest = append(rest, entry)
		if strings.TrimSpace(value) == "" || !slices.Contains(proxyVariables, strings.ToUpper(name)) {
			continue
		}
		named = true
		if err := e.add(name, value); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case !named:
		return nil, nil, errNoProxies
	case len(e.Addresses) == 0:
		return nil, nil, errNoEndpoints
	}
	return rest, e, nil
}

// Ports returns which variables get the ports of the listeners, in the order of
// Addresses.
func (e *Endpoints) Ports() (listeners int, ports []stage.Port) { return len(e.Addresses), e.ports }

// add adds a variable, if it names a proxy on the loopback. Other variables stay as they
// are, and cannot be reached.
func (e *Endpoints) add(name, value string) error {
	p, address, ok := parseEndpoint(value)
	if !ok {
		return nil
	}
	p.Variable = name
	if p.Listener = slices.Index(e.Addresses, address); p.Listener < 0 {
		if len(e.Addresses) == stage.MaxListen {
			return fmt.Errorf("managed proxy mode takes at most %d different proxies", stage.MaxListen)
		}
		p.Listener = len(e.Addresses)
		e.Addresses = append(e.Addresses, address)
	}
	e.ports = append(e.ports, p)
	return nil
}

// parseEndpoint splits a URL of a proxy around its host and port. Everything else is
// kept.
func parseEndpoint(value string) (p stage.Port, address netip.AddrPort, ok bool) {
	value = strings.TrimSpace(value)
	scheme, rest, given := strings.Cut(value, "://")
	if !given {
		scheme, rest = "http", value
	}
	scheme = strings.ToLower(scheme)
	u, err := url.Parse(scheme + "://" + rest)
	if err != nil {
		return p, address, false
	}
	host, ok := loopbackHosts[strings.ToLower(u.Hostname())]
	if !ok {
		return p, address, false
	}
	port := defaultPort(scheme)
	if text := u.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return p, address, false
		}
		port = uint16(n)
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority, p.Suffix = rest[:end], rest[end:]
	}
	user := authority[:strings.LastIndexByte(authority, '@')+1]
	p.Prefix = user + "127.0.0.1:"
	if given {
		p.Prefix = scheme + "://" + p.Prefix
	}
	return p, netip.AddrPortFrom(host, port), true
}

// loopbackHosts are the hosts that a prepared proxy can have.
var loopbackHosts = map[string]netip.Addr{
	"localhost": netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	"127.0.0.1": netip.AddrFrom4([4]byte{127, 0, 0, 1}),
	"::1":       netip.IPv6Loopback(),
}

func defaultPort(scheme string) uint16 {
	switch {
	case scheme == "https":
		return 443
	case strings.HasPrefix(scheme, "socks"):
		return 1080
	}
	return 80
}
