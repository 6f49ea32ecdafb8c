//go:build interop

package interop_test

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A networkMessage is a message of a server about the network of a process.
type networkMessage struct {
	id     json.RawMessage // of a request
	method string
	params json.RawMessage
}

// networkLocked keeps a message, and answers it if it is a question.
func (c *conn) networkLocked(m networkMessage) {
	c.network = append(c.network, m)
	if m.id != nil && c.decide != nil {
		if answer := c.decide(m); answer != "" {
			c.ws.WriteText(fmt.Appendf(nil, `{"id":%s,%s}`, m.id, answer))
		}
	}
}

var timestampPattern = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

// String is the message without what differs from run to run, and without what tether
// adds.
func (m networkMessage) String() string {
	var params map[string]any
	if err := json.Unmarshal(m.params, &params); err != nil {
		return m.method + " with params " + string(m.params)
	}
	for name := range params {
		if strings.HasPrefix(name, "tether") {
			delete(params, name)
		}
	}
	if at, ok := params["timestamp"].(string); ok && timestampPattern.MatchString(at) {
		params["timestamp"] = "TIME"
	}
	return strings.TrimPrefix(m.method, "network/") + " " + canonical(params)
}

// A proxied is a running process with a proxy that every process of this host can reach. The test itself uses the proxy.
type proxied struct {
	c           *conn
	id          string
	http, socks string // addresses; empty: none
	seen        int    // messages on the connection that are accounted for
}

// proxySettings are the members of a proxy that a client always sends; members in over
// win.
func proxySettings(over string) string {
	members := map[string]json.RawMessage{}
	base := `"enabled":true,"enableSocks5":true,"enableSocks5Udp":true,"allowUpstreamProxy":true,"dangerouslyAllowAllUnixSockets":false,` +
		`"mode":"full","domains":null,"unixSockets":null,"allowLocalBinding":false`
	for _, text := range []string{base, over} {
		if err := json.Unmarshal([]byte("{"+text+"}"), &members); err != nil {
			panic("proxySettings: " + text + ": " + err.Error())
		}
	}
	return canonical(members)
}

// networkProxy is the member of a start that asks for a proxy; extra is more of it.
func networkProxy(settings, extra string) string {
	if extra != "" {
		extra = "," + extra
	}
	return fmt.Sprintf(`"networkProxy":{"proxy":%s%s}`, proxySettings(settings), extra)
}

// proxied starts one. It records nothing.
func (c *conn) proxied(id, member string) *proxied {
	c.p.t.Helper()
	c.start(id, sh(`echo "proxies $HTTP_PROXY $ALL_PROXY ."; exec sleep 600`), member)
	c.seen(id, " .\n")
	c.mu.Lock()
	fields := strings.Fields(outputOf(c.events[id], "stdout"))
	c.mu.Unlock()
	p := &proxied{c: c, id: id}
	for _, field := range fields {
		if a, ok := strings.CutPrefix(field, "http://"); ok {
			p.http = a
		}
		if a, ok := strings.CutPrefix(field, "socks5h://"); ok {
			p.socks = a
		}
	}
	return p
}

// A probe is one attempt to reach something.
type probe struct {
	label     string
	do        func(p *proxied) string
	decisions int // how many messages about it must come before the next probe
	fewer     int // how many less than that come from tether
}

// messages returns the probe with another number of expected messages.
func (b probe) messages(n int) probe { b.decisions = n; return b }

// fewerFromTether returns the probe with n fewer messages from tether; a negative n means more.
func (b probe) fewerFromTether(n int) probe { b.fewer = n; return b }

// named is the probe with another label.
func (b probe) named(label string) probe { b.label = label; return b }

// play makes the attempt and records its result and the messages about it.
func (p *proxied) play(b probe) {
	p.c.p.t.Helper()
	p.c.p.note(b.label, p.withoutFamily(b.label, b.do(p)))
	want := p.seen + b.decisions
	if p.c.p.who == tether {
		want -= b.fewer
	}
	p.c.await(timeLimit, func() bool { return len(p.c.network) >= want })
	p.recordMessages(b.label)
}

// withoutFamily removes from an observation of the reference whether it reached localhost by IPv4 or IPv6: it tries both, and chance
// decides which is first.
func (p *proxied) withoutFamily(label, value string) string {
	if p.c.p.who != ref || !strings.Contains(strings.ReplaceAll(label, "foo.localhost", ""), "localhost") {
		return value
	}
	return strings.NewReplacer("at=::1 ", "at=LOOPBACK ", "at=127.0.0.1 ", "at=LOOPBACK ",
		"05000004 00000000000000000000000000000001 ", "05 LOOPBACK ", "05000001 7f000001 ", "05 LOOPBACK ").Replace(value)
}

// recordMessages records the messages since its last call.
func (p *proxied) recordMessages(label string) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	var b strings.Builder
	for _, m := range p.c.network[p.seen:] {
		b.WriteString(m.String() + "\n")
	}
	p.seen = len(p.c.network)
	p.c.p.note(label+", said", b.String())
}

// stop ends the process and records the messages for which no probe has waited.
func (p *proxied) stop() {
	p.c.call("process/terminate", fmt.Sprintf(`{"processId":%q}`, p.id))
	p.c.gone(p.id, "process/closed")
	p.c.call("no/such", "null") // earlier messages have arrived when this is answered
	p.recordMessages("afterwards")
}

// raw sends a request to the HTTP proxy. Of the answer it gives status, content type,
// class of the error, and body; of a tunnel what a request through it returns.
func raw(request string) probe {
	method, rest, _ := strings.Cut(request, " ")
	target, _, _ := strings.Cut(rest, " ")
	return probe{method + " " + target, func(p *proxied) string {
		conn, err := net.DialTimeout("tcp", p.http, probeTimeout)
		if err != nil {
			return describeFailure(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(probeTimeout))
		io.WriteString(conn, request)
		return readAnswer(conn, method)
	}, 1, 0}
}

func readAnswer(conn net.Conn, method string) string {
	in := bufio.NewReader(conn)
	r, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return describeFailure(err)
	}
	defer r.Body.Close()
	if r.StatusCode == http.StatusBadRequest {
		return badRequest
	}
	head := fmt.Sprintf("%d content-type=%q x-proxy-error=%q ", r.StatusCode, r.Header["Content-Type"], r.Header["X-Proxy-Error"])
	if method == http.MethodConnect && r.StatusCode == http.StatusOK {
		io.WriteString(conn, throughTunnel)
		r, err = http.ReadResponse(in, nil)
		if err != nil {
			return head + "tunnel: " + describeFailure(err)
		}
		defer r.Body.Close()
		head += "tunnel: "
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return head + describeFailure(err)
	}
	return head + string(body)
}

// badRequest is the comparable part of the answer to a malformed request.
const badRequest = "400"

// throughTunnel is the request that is sent through a tunnel.
const throughTunnel = "GET /tunnel HTTP/1.1\r\nHost: tunnel\r\nConnection: close\r\n\r\n"

// describeFailure describes an error without addresses.
func describeFailure(err error) string {
	for _, known := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} { // chance decides which of them it is
		if errors.Is(err, known) {
			return "nothing: closed"
		}
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "nothing: connection refused"
	}
	return "nothing: " + err.Error()
}

// fetch asks for the root of a host in the way that clients of a proxy do.
func fetch(host string) probe { return request("GET", host, "") }

// request is fetch with a method and more header lines.
func request(method, host, lines string) probe {
	return raw(fmt.Sprintf("%s http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n", method, host, host, lines))
}

// tunnel asks for a tunnel with CONNECT.
func tunnel(hostPort string) probe {
	return raw(fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", hostPort, hostPort))
}

// The commands of SOCKS5.
const socksConnect, socksBind, socksAssociate = 1, 2, 3

// socks asks the SOCKS5 proxy for a tunnel to a name, or to an address if host is one
// in brackets.
func socks(host string, port uint16) probe { return socksCommand(socksConnect, host, port) }

func socksCommand(command byte, host string, port uint16) probe {
	label := fmt.Sprintf("SOCKS %d %q %d", command, host, port)
	return probe{label, func(p *proxied) string {
		conn, err := net.DialTimeout("tcp", p.socks, probeTimeout)
		if err != nil {
			return describeFailure(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(probeTimeout))
		reply, bound, err := socksHandshake(conn, append([]byte{5, command, 0}, socksAddress(host, port)...))
		if err != nil {
			return reply + describeFailure(err)
		}
		if command != socksConnect || !bound.IsValid() {
			return reply
		}
		io.WriteString(conn, throughTunnel)
		return reply + " " + readAnswer(conn, http.MethodGet)
	}, 1, 0}
}

// socksHandshake greets and sends a request. The reply is in hexadecimal, without the
// port if it succeeded.
func socksHandshake(conn net.Conn, request []byte) (reply string, bound netip.AddrPort, err error) {
	conn.Write([]byte{5, 1, 0})
	if _, err := io.ReadFull(conn, make([]byte, 2)); err != nil {
		return "greeting: ", bound, err
	}
	conn.Write(request)
	head := make([]byte, 4)
	if n, err := io.ReadFull(conn, head); err != nil {
		return hex.EncodeToString(head[:n]), bound, err
	}
	rest := make([]byte, 4+2)
	if head[3] == 4 {
		rest = make([]byte, 16+2)
	}
	if _, err := io.ReadFull(conn, rest); err != nil {
		return hex.EncodeToString(head), bound, err
	}
	address, port := rest[:len(rest)-2], binary.BigEndian.Uint16(rest[len(rest)-2:])
	reply = fmt.Sprintf("%x %x ", head, address)
	if head[1] != 0 {
		return reply + strconv.Itoa(int(port)), bound, nil
	}
	a, _ := netip.AddrFromSlice(address)
	return reply + "PORT", netip.AddrPortFrom(a, port), nil
}

func socksAddress(host string, port uint16) []byte {
	var b []byte
	if bare, ok := strings.CutPrefix(host, "["); ok {
		a := netip.MustParseAddr(strings.TrimSuffix(bare, "]"))
		b = append([]byte{1}, a.AsSlice()...)
		if a.Is6() {
			b[0] = 4
		}
	} else {
		b = append([]byte{3, byte(len(host))}, host...)
	}
	return binary.BigEndian.AppendUint16(b, port)
}

// datagram asks the SOCKS5 proxy for an association and sends a datagram through it.
func datagram(host string) probe {
	return probe{"UDP " + host, func(p *proxied) string {
		conn, err := net.DialTimeout("tcp", p.socks, probeTimeout)
		if err != nil {
			return describeFailure(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(probeTimeout))
		reply, bound, err := socksHandshake(conn, append([]byte{5, socksAssociate, 0}, socksAddress("[0.0.0.0]", 0)...))
		if err != nil {
			return reply + describeFailure(err)
		}
		if !bound.IsValid() {
			return reply
		}
		out, err := net.Dial("udp4", fmt.Sprintf("127.0.0.1:%d", bound.Port()))
		if err != nil {
			return reply + describeFailure(err)
		}
		defer out.Close()
		out.Write(append(append([]byte{0, 0, 0}, socksAddress(host, echoPort)...), "ping"...))
		buf := make([]byte, 1500)
		for end := time.Now().Add(probeTimeout); time.Now().Before(end); {
			out.SetReadDeadline(time.Now().Add(datagramTime))
			n, err := out.Read(buf)
			if err == nil {
				return reply + fmt.Sprintf(" %q", buf[:n])
			}
			if p.c.p.who == ref || p.denied() { // the reference forwards none
				break
			}
		}
		return reply + " no datagram"
	}, 1, 0}
}

// datagramTime is how long to wait for a datagram that must not arrive.
const datagramTime = 300 * time.Millisecond

// denied reports whether a denial was reported since the last probe.
func (p *proxied) denied() bool {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	return slices.ContainsFunc(p.c.network[p.seen:], func(m networkMessage) bool { return strings.Contains(string(m.params), `"decision":"deny"`) })
}

// Answers to probes in which tether differs on purpose.

// reached is the answer to a request that reached its host.
func reached(method, path, host, at string) string {
	return fmt.Sprintf("200 content-type=[\"text/plain\"] x-proxy-error=[] hello %s %s host=%s at=%s headers=[] body=\"\"\n", method, path, host, at)
}

// tunnelled is the same through a tunnel of CONNECT, dialled through one of SOCKS5 to an
// IPv4 address.
func tunnelled(at string) string {
	return strings.Replace(reached("GET", "/tunnel", "tunnel", at), `["text/plain"] x-proxy-error=[]`, "[] x-proxy-error=[] tunnel:", 1)
}

func dialled(at string) string {
	return fmt.Sprintf("05000001 %x PORT ", netip.MustParseAddr(at).AsSlice()) + reached("GET", "/tunnel", "tunnel", at)
}

// socksForbidden is the reply of SOCKS5 to a request that is not allowed.
const socksForbidden = "05020001 00000000 0"

// upstreamFailure is the answer about a host that does not answer.
const upstreamFailure = `502 content-type=["text/plain"] x-proxy-error=[] upstream failure`

// The refusals of CONNECT.
const (
	deniedTunnel = `403 content-type=["text/plain"] x-proxy-error=["blocked-by-denylist"] Domain denied by the sandbox policy.`
	localTunnel  = `403 content-type=["text/plain"] x-proxy-error=["blocked-by-allowlist"] Sandbox policy blocks local/private network addresses.`
)

// A toldDecision is a decision as it is reported to the client.
type toldDecision struct {
	decision, protocol, method, host string
	port                             int
	reason, source                   string
}

// String is the line of the message.
func (n toldDecision) String() string {
	m := map[string]any{"client": "127.0.0.1:PORT", "decision": n.decision, "host": n.host, "policyOverride": n.decision == "allow" && n.source == "decider",
		"port": n.port, "processId": "p", "protocol": n.protocol, "reason": n.reason, "scope": "domain", "source": n.source, "timestamp": "TIME"}
	if n.method != "" {
		m["method"] = n.method
	}
	if n.source == "mode_guard" || n.source == "proxy_state" {
		m["scope"] = "non_domain"
	}
	return "policyDecision " + canonical(m) + "\n"
}

// ruled is the report about a CONNECT that the rules decide.
func ruled(decision, host string, port int, reason string) string {
	return toldDecision{decision, "https_connect", "CONNECT", host, port, reason, "baseline_policy"}.String()
}

// question is the line of the message that asks about a host.
func question(protocol, host string, port int) string {
	return "policyRequest " + canonical(map[string]any{"processId": "p", "request": map[string]any{"host": host, "port": port, "protocol": protocol}}) + "\n"
}

// asTheirs stands for the same answer as that of the reference.
const asTheirs = "\x00"

// instead returns the differences of a probe: in its answer and in the messages about it.
func instead(reason string, b probe, answer string, said ...string) (d []difference) {
	if answer != asTheirs {
		d = append(d, difference{b.label, reason, answer})
	}
	if len(said) != 1 || said[0] != asTheirs {
		d = append(d, difference{b.label + ", said", reason, strings.Join(said, "")})
	}
	return d
}
