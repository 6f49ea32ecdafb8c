//go:build interop

package interop_test

import (
	"slices"
	"strings"
	"testing"
)

// proxyOutcome is the comparison of proxies.
const proxyOutcome comparison = "of HTTP and CONNECT: status, content-type, x-proxy-error, body (of 400 only the status); of SOCKS5: the bytes of the reply but for the " +
	"port of a tunnel; what comes through; the params of policyRequest; of policyDecision all but the timestamp and the client's port"

// A proxyTable is a proxy with these settings, and the probes for it.
type proxyTable struct {
	name     string
	settings string // over those of proxySettings
	extra    string // more members of networkProxy
	answer   string // to each question: members of the reply; empty: none
	probes   []probe
	differs  []difference
}

// TestNetworkProxies makes the same probes with the proxies of both servers.
func TestNetworkProxies(t *testing.T) {
	t.Parallel()
	inNamespace(t, func(t *testing.T) {
		openWorld(t)
		for _, table := range proxyTables {
			t.Run(table.name, func(t *testing.T) {
				exchange{name: table.name, compares: proxyOutcome, differs: table.differs, play: table.play}.run(t)
			})
		}
	})
}

func (x proxyTable) play(p *player) {
	rebindAsked.Store(0)
	c := p.open()
	c.decideBy(func(networkMessage) string { return x.answer })
	process := c.proxied("p", networkProxy(x.settings, x.extra))
	for _, b := range x.probes {
		process.play(b)
	}
	process.stop()
}

// all returns probes of a host with each protocol.
func all(hosts ...string) (probes []probe) {
	for _, host := range hosts {
		probes = append(probes, fetch(host), tunnel(host+":443"), socks(host, webPort))
	}
	return probes
}

// join makes one list of several.
func join(lists ...[]probe) []probe { return slices.Concat(lists...) }

// Rules that most tables use.
const someDomains = `"domains":{"pub.example":"allow","denied.example":"deny","loop.example":"allow","*.example":"none"}`

// asks makes the server ask the client. It waits for the answer as long as this says, and 5 s longer.
const asks = `"policyDecisionTimeoutMs":5000`

var proxyTables = slices.Concat(domainTables, modeTables, hostTables, addressTables, answerTables, socksTables)

var domainTables = []proxyTable{
	{name: "domains", settings: `"domains":{"pub.example":"allow","*.pub2.example":"allow","denied.example":"deny","*.example":"none","loop.example":"allow"}`,
		probes: all("pub.example", "a.pub.example", "pub2.example", "sub.pub2.example", "denied.example", "other.example", "loop.example", "single", "nx.example")},
	{name: "no domains", probes: all("pub.example", "127.0.0.1", "10.1.2.3")},
	{name: "empty domains", settings: `"domains":{}`, probes: all("pub.example")},
	{name: "apex and below", settings: `"domains":{"**.pub.example":"allow"}`, probes: tunnels("pub.example", "a.pub.example", "b.a.pub.example", "apub.example")},
	{name: "below", settings: `"domains":{"*.pub.example":"allow"}`, probes: tunnels("pub.example", "a.pub.example", "b.a.pub.example", "apub.example")},
	{name: "everything", settings: `"domains":{"*":"allow"}`, probes: tunnels("pub.example", "single", "8.8.8.8", "127.0.0.1", "localhost", "ten.example", "[2001:4860:4860::8888]", "[::1]")},
	{name: "deny wins", settings: `"domains":{"*.example":"allow","pub.example":"deny","a.pub.example":"allow","**.pub2.example":"deny"}`,
		probes: tunnels("pub.example", "a.pub.example", "pub2.example", "sub.pub2.example", "other.example")},
	{name: "spellings", settings: `"domains":{" PUB.Example ":"allow","*.PUB2.example":"allow","DENIED.example.":"deny"}`,
		probes: tunnels("pub.example", "sub.pub2.example", "denied.example")},
	{name: "globs", settings: `"domains":{"p*b.example":"allow","sub.*":"allow","?ther.example":"allow"}`,
		probes: tunnels("pub.example", "pub2.example", "sub.pub2.example", "other.example", "denied.example")},
	{name: "review", settings: `"domains":{"*.example":"allow","denied.example":"deny"},"reviewDomains":["pub.example","denied.example"]`,
		probes: tunnels("pub.example", "other.example", "denied.example")},
}

// tunnels returns probes of hosts with CONNECT.
func tunnels(hosts ...string) (probes []probe) {
	for _, host := range hosts {
		probes = append(probes, tunnel(host+":80"))
	}
	return probes
}

var modeTables = []proxyTable{
	{name: "limited", settings: someDomains + `,"mode":"limited"`, probes: []probe{
		fetch("pub.example"), request("HEAD", "pub.example", ""), request("OPTIONS", "pub.example", ""),
		post("pub.example").messages(2), request("get", "pub.example", "").messages(2), request("PURGE", "pub.example", "").messages(2),
		post("denied.example"), fetch("denied.example"), fetch("other.example"),
		tunnel("pub.example:443").messages(2), tunnel("denied.example:443"), tunnel("other.example:443"),
		socks("pub.example", webPort), socks("denied.example", webPort), socks("other.example", webPort)}},
	{name: "full", settings: someDomains, probes: []probe{
		post("pub.example"), request("get", "pub.example", ""), request("PURGE", "pub.example", ""), request("HEAD", "denied.example", "")}},
	{name: "local binding", settings: `"domains":{"*":"allow","denied.example":"deny"},"allowLocalBinding":true`,
		probes: all("pub.example", "loop.example", "127.0.0.1", "localhost", "10.1.2.3", "169.254.169.254", "denied.example"),
		differs: slices.Concat(
			instead(addressAsName, socks("127.0.0.1", webPort), dialled("127.0.0.1"), asTheirs),
			instead(addressAsName, socks("10.1.2.3", webPort), dialled("10.1.2.3"), asTheirs),
			instead(preferIPv6, fetch("localhost"), reached("GET", "/", "localhost", "::1"), asTheirs),
			instead(preferIPv6, tunnel("localhost:443"), tunnelled("::1"), asTheirs),
			instead(preferIPv6, socks("localhost", webPort), "05000004 00000000000000000000000000000001 PORT "+reached("GET", "/tunnel", "tunnel", "::1"), asTheirs),
			instead(linkLocal, fetch("169.254.169.254"), `403 content-type=["application/json"] x-proxy-error=["blocked-by-allowlist"] `+
				`{"status":"blocked","host":"169.254.169.254","reason":"not_allowed_local","decision":"deny","source":"baseline_policy","protocol":"http","port":80,`+
				`"message":"Sandbox policy blocks local/private network addresses."}`,
				toldDecision{"deny", "http", "GET", "169.254.169.254", webPort, "not_allowed_local", "baseline_policy"}.String()),
			instead(linkLocal, tunnel("169.254.169.254:443"), localTunnel, ruled("deny", "169.254.169.254", 443, "not_allowed_local")),
			instead(linkLocal, socks("169.254.169.254", webPort), socksForbidden,
				toldDecision{"deny", "socks5_tcp", "", "169.254.169.254", webPort, "not_allowed_local", "baseline_policy"}.String()))},
	{name: "local binding without rules", settings: `"allowLocalBinding":true`, probes: all("pub.example", "127.0.0.1", "localhost")},
	{name: "limited and asked", settings: `"mode":"limited"`, extra: asks, answer: `"result":{"decision":{"type":"allow"}}`, probes: []probe{
		fetch("pub.example").messages(2), post("pub.example").messages(3), tunnel("pub.example:443").messages(3), socks("pub.example", webPort)}},
	{name: "unix sockets", settings: someDomains + `,"unixSockets":{"/tmp/x.sock":"allow"},"dangerouslyAllowAllUnixSockets":true`, probes: []probe{
		request("GET", "pub.example", "X-Unix-Socket: /tmp/x.sock\r\n"), request("POST", "pub.example", "X-Unix-Socket: /tmp/x.sock\r\nContent-Length: 0\r\n")}},
	{name: "unix sockets, limited", settings: someDomains + `,"mode":"limited"`, probes: []probe{
		request("GET", "pub.example", "X-Unix-Socket: /tmp/x.sock\r\n"), request("POST", "pub.example", "X-Unix-Socket: /tmp/x.sock\r\nContent-Length: 0\r\n")},
		differs: instead("a target that cannot be reached is no matter of the method", post("pub.example"), `501 content-type=["text/plain"] x-proxy-error=[] unix sockets unsupported`,
			toldDecision{"deny", "http", "POST", "unix-socket", 0, "unix_socket_unsupported", "proxy_state"}.String())},
}

// Reasons for differences.
const (
	addressAsName = "an address that is spelled as a name can be dialled"
	preferIPv6    = "a host with addresses of both kinds is tried in the order of RFC 6724"
	linkLocal     = "link-local addresses, where machines tell their secrets, take a rule of their own"
	oneSpelling   = "an address in another spelling is that address"
	strictTarget  = "a target that can be read in two ways is refused"
	dialsFirst    = "CONNECT succeeds when there is a connection"
	notPublic     = "more addresses are not public: those that stand for others, and those for documentation and relays"
)

// post is a request that changes something.
func post(host string) probe { return request("POST", host, "Content-Length: 0\r\n") }

var hostTables = []proxyTable{
	{name: "hosts", settings: `"domains":{"**.example":"allow","8.8.8.8":"deny","*":"allow"}`, probes: join(
		tunnels("PUB.Example", "pub.example.", "xn--mnchen-3ya.example", "under_score.example", "8.8.8.8", "[2001:4860:4860::8888]", "[2001:4860:4860:0:0:0:0:8888]"),
		unreported(tunnel("pub.example..:80"), tunnel("a..example:80"), tunnel("-x.example:80"), tunnel(":80"), tunnel(strings.Repeat("a", 64)+".example:80"), tunnel("[fe80::5%25lo]:80")),
		tunnels("134744072", "010.8.8.8", "0x8.8.8.8", "[::ffff:8.8.8.8]", "127.1", "[::ffff:127.0.0.1]"), laxTunnels),
		differs: slices.Concat(
			instead("names with an underscore resolve", tunnel("under_score.example:80"), tunnelled("11.0.0.1"), asTheirs),
			instead(oneSpelling, tunnel("134744072:80"), deniedTunnel, ruled("deny", "8.8.8.8", webPort, "denied")),
			instead(oneSpelling, tunnel("010.8.8.8:80"), deniedTunnel, ruled("deny", "8.8.8.8", webPort, "denied")),
			instead(oneSpelling, tunnel("0x8.8.8.8:80"), deniedTunnel, ruled("deny", "8.8.8.8", webPort, "denied")),
			instead(oneSpelling, tunnel("[::ffff:8.8.8.8]:80"), deniedTunnel, ruled("deny", "8.8.8.8", webPort, "denied")),
			instead(oneSpelling, tunnel("127.1:80"), asTheirs, ruled("deny", "127.0.0.1", webPort, "not_allowed_local")),
			instead(oneSpelling, tunnel("[::ffff:127.0.0.1]:80"), asTheirs, ruled("deny", "127.0.0.1", webPort, "not_allowed_local")),
			refusedTargets(laxTunnels))},
	{name: "targets", settings: `"domains":{"pub.example":"allow","pub2.example":"allow","denied.example":"deny"}`, probes: join(
		[]probe{line("GET http://pub.example/a%2Fb?x=1%20y&z HTTP/1.1", "Host: pub.example", "X-Kept: yes", "Proxy-Authorization: Basic x", "Proxy-Connection: keep-alive", "X-Forwarded-For: 1.2.3.4"),
			line("GET http://pub.example:8080/ HTTP/1.1", "Host: pub.example:8080"), line("GET http://pub.example/ HTTP/1.0"),
			line("GET http://pub.example:80/ HTTP/1.1", "Host: pub.example"), line("GET http://pub.example/ HTTP/1.1", "Host: pub.example:80"),
			line("GET http://pub.example:81/ HTTP/1.1", "Host: pub.example:81"),
			line("CONNECT pub.example:443 HTTP/1.1", "Host: denied.example:443"), tunnel("pub.example:81")},
		unreported(line("GET http://pub.example/ HTTP/1.1", "Host: pub.example", "Host: pub2.example"), line("GET ftp://pub.example/ HTTP/1.1", "Host: pub.example"),
			line("GET http://pub.example:99999/ HTTP/1.1", "Host: pub.example:99999"), line("GET http:///x HTTP/1.1", "Host: pub.example"),
			line("GET pub.example/x HTTP/1.1", "Host: pub.example")),
		laxTargets, foreignHosts),
		differs: slices.Concat(
			instead(ownHost, line("GET http://pub.example:80/ HTTP/1.1", "Host: pub.example"), reached("GET", "/", "pub.example:80", "11.0.0.1"), asTheirs),
			instead(ownHost, line("GET http://pub.example/ HTTP/1.1", "Host: pub.example:80"), reached("GET", "/", "pub.example", "11.0.0.1"), asTheirs),
			instead(dialsFirst, tunnel("pub.example:81"), upstreamFailure, asTheirs),
			refusedTargets(laxTargets), overriddenHosts())},
}

// ownHost is the reason why the Host header of a client is not forwarded.
const ownHost = "hosts get a Host header that is made of the target"

// laxTunnels and laxTargets are malformed requests that the reference accepts and tether refuses.
var (
	laxTunnels = onlyReferenceReports(tunnel("user:pw@pub.example:80"), tunnel("pub.example"), tunnel("pub.example:0"), tunnel("pub.example:99999"), tunnel("pub.example:x"))
	laxTargets = onlyReferenceReports(line("GET / HTTP/1.1", "Host: pub.example"), line("GET / HTTP/1.1", "Host: denied.example"), line("GET https://pub.example/ HTTP/1.1", "Host: pub.example"),
		line("GET http://user:pw@pub.example/ HTTP/1.1", "Host: pub.example"), line("CONNECT /x HTTP/1.1", "Host: pub.example:443"))
	// foreignHosts have a Host header that names another host than the target.
	foreignHosts = []probe{line("GET http://pub.example/ HTTP/1.1", "Host: denied.example").messages(0).fewerFromTether(-1),
		line("GET http://pub.example/ HTTP/1.1", "Host: pub.example:8080").messages(0).fewerFromTether(-1)}
)

// onlyReferenceReports are probes about which only the reference sends a message.
func onlyReferenceReports(probes ...probe) []probe {
	for i := range probes {
		probes[i] = probes[i].fewerFromTether(1)
	}
	return probes
}

func refusedTargets(probes []probe) (d []difference) {
	for _, b := range probes {
		d = append(d, instead(strictTarget, b, badRequest)...)
	}
	return d
}

func overriddenHosts() (d []difference) {
	for _, b := range foreignHosts {
		d = append(d, instead(ownHost, b, reached("GET", "/", "pub.example", "11.0.0.1"), toldDecision{"allow", "http", "GET", "pub.example", webPort, "allow", "baseline_policy"}.String())...)
	}
	return d
}

// line returns a probe with these lines as the only request of its connection.
func line(first string, headers ...string) probe {
	return raw(strings.Join(append(append([]string{first}, headers...), "Connection: close"), "\r\n") + "\r\n\r\n").named(
		first + " " + strings.Join(headers, "; "))
}

// unreported are probes about which no message is sent.
func unreported(probes ...probe) []probe {
	for i := range probes {
		probes[i] = probes[i].messages(0)
	}
	return probes
}

var addressTables = []proxyTable{
	{name: "private names", settings: `"domains":{"**.example":"allow","*.localhost":"allow","localhost":"allow"}`, probes: join(
		tunnels("ten.example", "meta.example", "mixed.example", "foo.localhost", "localhost", "nx.example", "pub6.example", "google8.example"),
		tunnels("nat64.example", "doc6.example", "relay.example")),
		differs: slices.Concat(
			instead(preferIPv6, tunnel("localhost:80"), tunnelled("::1"), asTheirs),
			instead(notPublic, tunnel("nat64.example:80"), localTunnel, ruled("deny", "nat64.example", webPort, "not_allowed_local")),
			instead(notPublic, tunnel("doc6.example:80"), localTunnel, ruled("deny", "doc6.example", webPort, "not_allowed_local")),
			instead(notPublic, tunnel("relay.example:80"), localTunnel, ruled("deny", "relay.example", webPort, "not_allowed_local")))},
	{name: "private literals", settings: `"domains":{"127.0.0.1":"allow","169.254.169.254":"allow","::1":"allow","10.*":"allow","8.8.8.8":"allow"}`,
		probes:  tunnels("127.0.0.1", "169.254.169.254", "[::1]", "10.1.2.3", "8.8.8.8", "[fd00::5]", "0.0.0.0", "255.255.255.255", "224.0.0.1", "100.64.0.1", "[64:ff9b::7f00:1]"),
		differs: instead(notPublic, tunnel("[64:ff9b::7f00:1]:80"), localTunnel, ruled("deny", "64:ff9b::7f00:1", webPort, "not_allowed_local"))},
	{name: "rebinding", settings: `"domains":{"rebind.example":"allow"}`, probes: []probe{fetch(rebindName)},
		differs: instead("a name is resolved once, and the proxy connects to the address that it checked", fetch(rebindName), reached("GET", "/", rebindName, "11.0.0.1"), asTheirs)},
}
