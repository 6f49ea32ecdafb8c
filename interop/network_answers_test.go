//go:build interop

package interop_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// answerTables has the kinds of answers to a question. Each is tried with each protocol, because the reports to the client differ.
var answerTables = append([]proxyTable{
	{name: "asked, other rules", settings: someDomains, extra: asks, answer: decision(`{"type":"allow"}`), probes: join(
		all("pub.example", "denied.example", "loop.example", "127.0.0.1", "localhost"), asked(fetch("ten.example"), fetch("nx.example"), tunnel("foo.localhost:80"),
			socks("OTHER.example.", webPort), tunnel("[2001:4860:4860::8888]:80")))},
	{name: "asked, local binding", settings: someDomains + `,"allowLocalBinding":true`, extra: asks, answer: decision(`{"type":"allow"}`),
		probes:  asked(fetch("ten.example"), fetch("127.0.0.1"), tunnel("nx.example:80"), fetch("nx.example")),
		differs: instead(dialsFirst, tunnel("nx.example:80"), upstreamFailure, asTheirs)},
	{name: "asked, review", settings: `"domains":{"*.example":"allow"},"reviewDomains":["pub.example"]`, extra: asks, answer: decision(`{"type":"allow"}`),
		probes: append(asked(fetch("pub.example")), fetch("other.example"))},
}, answersOf(map[string]string{
	"allow": decision(`{"type":"allow"}`), "allow with a reason": decision(`{"type":"allow","reason":"fine"}`),
	"deny": decision(`{"type":"deny","reason":"because <of> \u00e9"}`), "deny for nothing": decision(`{"type":"deny","reason":""}`), "deny without reason": decision(`{"type":"deny"}`),
	"deny for a known reason": decision(`{"type":"deny","reason":"method_not_allowed"}`), "deny as denied": decision(`{"type":"deny","reason":"denied"}`),
	"ask": decision(`{"type":"ask","reason":"hm"}`), "ask without reason": decision(`{"type":"ask"}`), "ask for nothing": decision(`{"type":"ask","reason":""}`),
	"ask with a line break": decision(`{"type":"ask","reason":"a\nb"}`),
	"unknown type":          decision(`{"type":"maybe","reason":"x"}`), "no type": decision(`{}`), "a word": decision(`"allow"`), "no decision": `"result":{}`, "null": `"result":null`,
	"an error":             `"error":{"code":-32603,"message":"no"}`,
	"reason of 1024 bytes": decision(`{"type":"deny","reason":"` + strings.Repeat("r", 1024) + `"}`), "reason of 1025 bytes": decision(`{"type":"deny","reason":"` + strings.Repeat("r", 1025) + `"}`),
	"reason with a control character": decision(`{"type":"deny","reason":"a\u0007b"}`), "reason with a line break": decision(`{"type":"deny","reason":"a\nb"}`),
})...)

func decision(text string) string { return `"result":{"decision":` + text + `}` }

// asked returns probes that cause a question and a decision.
func asked(probes ...probe) []probe {
	for i := range probes {
		probes[i] = probes[i].messages(2)
	}
	return probes
}

func answersOf(answers map[string]string) (tables []proxyTable) {
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		tables = append(tables, proxyTable{name: "answer: " + name, settings: someDomains, extra: asks, answer: answers[name],
			probes: asked(fetch("other.example"), tunnel("other.example:443"), socks("other.example", webPort))})
	}
	return tables
}

// TestNetworkSilence has a client that does not answer questions: the server waits for the client's time limit and five seconds
// more. It compares the same as TestNetworkProxies, and that the refusal came after that time and not much later.
func TestNetworkSilence(t *testing.T) {
	t.Parallel()
	inNamespace(t, func(t *testing.T) {
		openWorld(t)
		exchange{name: "silence", compares: proxyOutcome, play: func(p *player) {
			c := p.open()
			process := c.proxied("p", networkProxy("", `"policyDecisionTimeoutMs":300`))
			process.play(timed(fetch("other.example"), 5300*time.Millisecond, 20*time.Second).messages(2))
			process.stop()
		}}.run(t)
	})
}

// timed adds to a probe whether it took this time, or up to slack more.
func timed(b probe, want, slack time.Duration) probe {
	do := b.do
	b.do = func(p *proxied) string {
		begun := time.Now()
		result := do(p)
		if took := time.Since(begun); took < want || took > want+slack {
			return fmt.Sprintf("%s after %v", result, took)
		}
		return result + " in time"
	}
	return b
}

var socksTables = []proxyTable{
	{name: "socks", settings: `"domains":{"*":"allow","8.8.8.8":"deny","denied.example":"deny"}`, probes: join(
		[]probe{socks("[11.0.0.1]", webPort), socks("[8.8.8.8]", webPort), socks("[127.0.0.1]", webPort), socks("[::1]", webPort), socks("[2001:4860:4860::8888]", webPort),
			socks("PUB.example.", webPort), socks("8.8.8.8", webPort), socks("127.0.0.1.", webPort), socks("nx.example", webPort), socks("pub.example", 81), socks("pub.example", 0),
			socks("127.1", webPort)},
		unreported(socksCommand(socksBind, "pub.example", webPort), socksCommand(9, "pub.example", webPort)),
		notNames, []probe{colons, umlaut}),
		differs: slices.Concat(instead(oneSpelling, socks("127.1", webPort), asTheirs, toldDecision{"deny", "socks5_tcp", "", "127.0.0.1", webPort, "not_allowed_local", "baseline_policy"}.String()),
			forbiddenNames(), instead("an IPv6 address that is spelled as a name is that address", colons, socksForbidden,
				toldDecision{"deny", "socks5_tcp", "", "::1", webPort, "not_allowed_local", "baseline_policy"}.String()),
			instead("a name that is not ASCII is mapped", umlaut, dialled("11.0.0.1"),
				toldDecision{"allow", "socks5_tcp", "", "xn--mnchen-3ya.example", webPort, "allow", "baseline_policy"}.String()))},
	{name: "socks, no datagrams", settings: someDomains + `,"enableSocks5Udp":false`, probes: unreported(datagram("pub.example"))},
	{name: "datagrams", settings: `"domains":{"pub.example":"allow","denied.example":"deny","loop.example":"allow","11.0.0.1":"allow"}`,
		probes: lostDatagrams(1, "pub.example", "denied.example", "other.example", "loop.example", "[11.0.0.1]", "[127.0.0.1]"),
		differs: slices.Concat(
			relayed("pub.example", true, sent("allow", "pub.example", "allow", "baseline_policy")),
			relayed("denied.example", false, sent("deny", "denied.example", "denied", "baseline_policy")),
			relayed("other.example", false, sent("deny", "other.example", "not_allowed", "baseline_policy")),
			relayed("loop.example", false, sent("deny", "loop.example", "not_allowed_local", "baseline_policy")),
			relayed("[11.0.0.1]", true, sent("allow", "11.0.0.1", "allow", "baseline_policy")),
			relayed("[127.0.0.1]", false, sent("deny", "127.0.0.1", "not_allowed_local", "baseline_policy")))},
	{name: "datagrams, limited", settings: someDomains + `,"mode":"limited"`, probes: lostDatagrams(1, "pub.example"),
		differs: relayed("pub.example", false, sent("deny", "pub.example", "method_not_allowed", "mode_guard"))},
	{name: "datagrams, asked", settings: someDomains, extra: asks, answer: decision(`{"type":"allow"}`), probes: lostDatagrams(2, "other.example"),
		differs: relayed("other.example", true, question("socks5_udp", "other.example", echoPort), sent("allow", "other.example", "not_allowed", "decider"))},
}

// notNames are invalid host names in SOCKS5.
var notNames = unreported(socks("", webPort), socks("a b", webPort), socks("pub.example:80", webPort), socks("pub.example..", webPort),
	socks("user@pub.example", webPort), socks("-x.example", webPort))

// umlaut is a name that is not ASCII.
var umlaut = socks("m\u00fcnchen.example", webPort).messages(0).fewerFromTether(-1)

// colons is an IPv6 address that is spelled as a name.
var colons = socks("::1", webPort).messages(0).fewerFromTether(-1)

func forbiddenNames() (d []difference) {
	for _, b := range notNames {
		d = append(d, instead("a request for an invalid host name is answered", b, socksForbidden, asTheirs)...)
	}
	return d
}

// lostDatagrams are datagrams that the reference drops without a message, and about which tether sends n messages.
func lostDatagrams(n int, hosts ...string) (probes []probe) {
	for _, host := range hosts {
		probes = append(probes, datagram(host).messages(0).fewerFromTether(-n))
	}
	return probes
}

// relayed is the difference of a datagram that tether forwards.
func relayed(host string, answered bool, said ...string) []difference {
	answer := "05000001 7f000001 PORT no datagram"
	if answered {
		answer = `05000001 7f000001 PORT "\x00\x00\x00\x01\v\x00\x00\x01\x1eaecho ping"`
	}
	return instead("datagrams are passed on", datagram(host), answer, said...)
}

// sent is the report about a datagram.
func sent(verb, host, reason, source string) string {
	return toldDecision{verb, "socks5_udp", "", host, echoPort, reason, source}.String()
}
