//go:build interop

package interop_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tetherexec/tether/internal/tethertest"
)

// TestNetworkStarts compares the answers to starts with a proxy: which settings are
// refused, with which code and text, and which are accepted.
func TestNetworkStarts(t *testing.T) {
	tethertest.NeedBubblewrap(t)
	exchange{name: "starts", compares: wholeReplies, differs: startDifferences, play: func(p *player) {
		c := p.open()
		for i, row := range proxyStarts() {
			params := startParams(fmt.Sprint("p", i), sh("true"), row.members)
			var id string
			if strings.Contains(row.members, `"processId"`) {
				id = " with its own id"
			}
			c.ask(row.label+id, "process/start", params)
		}
	}}.run(t)
}

// proxyStarts lists starts, one for each member of a proxy and each way to get it wrong.
func proxyStarts() (rows []intentRow) {
	add := func(label, members string) { rows = append(rows, intentRow{label, members}) }
	for _, settings := range []string{
		``, `"enabled":false`, `"enabled":null`, `"enabled":1`, `"enableSocks5":null`, `"enableSocks5Udp":"x"`, `"mode":"Full"`, `"mode":""`, `"mode":null`, `"mode":5`,
		`"domains":{}`, `"domains":[]`, `"domains":5`, `"domains":{"a.example":"ask"}`, `"domains":{"a.example":"Allow"}`, `"domains":{"a.example":true}`, `"domains":{"a.example":null}`,
		`"unixSockets":{"/x":"allow","/y":"deny"}`, `"unixSockets":{"/x":"none"}`, `"unixSockets":[]`, `"unixSockets":{"rel.sock":"allow"}`, `"unixSockets":{"rel.sock":"deny"}`,
		`"unixSockets":{"":"allow"}`, `"unixSockets":{"/a\u0000b":"allow"}`, `"unixSockets":{"/tmp/../x":"allow"}`,
		`"reviewDomains":["a.example"]`, `"reviewDomains":null`, `"reviewDomains":5`, `"reviewDomains":[5]`, `"reviewDomains":{"a.example":"allow"}`, `"reviewDomains":["a/b"]`, `"reviewDomains":["*"]`,
		`"allowLocalBinding":null`, `"allowUpstreamProxy":null`, `"dangerouslyAllowAllUnixSockets":null`, `"unknown":{"x":1}`,
	} {
		add("settings "+settings, networkProxy(settings, ""))
	}
	for _, pattern := range []string{
		"", "  ", ".", "*.", "**.", ":80", "a/b", "http://a.example", "10.0.0.0/8", `a\\b`, "{a}", "a b", "a\\tb", "[a]", "[", "a]", "[::1]", "[::1]:80", "[*]", "***.a", "a.**.b", "**a", "a**",
		"*", "**", "*:80", "*.*", "**.*", "*.**", "a..b", ".a", "-a", "a:b:c", "user@a", "a:99999", "a:x", "a:", "m\u00fcnchen.example", "xn--mnchen-3ya.example", "a_b", "!a", "a,b", "a\\u0000b",
	} {
		for _, access := range []string{"allow", "deny", "none"} {
			add(access+" "+pattern, networkProxy(fmt.Sprintf(`"domains":{"%s":%q}`, pattern, access), ""))
		}
	}
	for _, extra := range []string{
		`"policyDecisionTimeoutMs":0`, `"policyDecisionTimeoutMs":1`, `"policyDecisionTimeoutMs":-1`, `"policyDecisionTimeoutMs":1.5`, `"policyDecisionTimeoutMs":"x"`,
		`"policyDecisionTimeoutMs":null`, `"policyDecisionTimeoutMs":18446744073709551615`, `"policyDecisionTimeoutMs":18446744073709551616`,
		`"auditMetadata":null`, `"auditMetadata":{}`, `"auditMetadata":5`, `"auditMetadata":{"model":5}`, `"auditMetadata":{"model":null,"slug":"x","more":1}`,
		`"environmentId":5`, `"environmentId":null`, `"executionId":5`, `"executionId":"x"`, `"unknown":1`,
	} {
		add("extra "+extra, networkProxy("", extra))
	}
	add("no proxy", `"networkProxy":{}`)
	add("null", `"networkProxy":null`)
	add("a number", `"networkProxy":5`)
	add("proxy null", `"networkProxy":{"proxy":null}`)
	add("proxy empty", `"networkProxy":{"proxy":{}}`)
	for _, member := range []string{"enabled", "enableSocks5", "enableSocks5Udp", "allowUpstreamProxy", "dangerouslyAllowAllUnixSockets", "mode", "domains", "unixSockets", "allowLocalBinding"} {
		add("without "+member, strings.Replace(networkProxy("", ""), fmt.Sprintf("%q:", member), fmt.Sprintf("%q:", "no "+member), 1))
	}
	add("id of 256 bytes", fmt.Sprintf(`"processId":%q,`, strings.Repeat("x", 256))+networkProxy("", asks))
	add("id of 257 bytes", fmt.Sprintf(`"processId":%q,`, strings.Repeat("x", 257))+networkProxy("", asks))
	add("id of 257 bytes, nobody asked", fmt.Sprintf(`"processId":%q,`, strings.Repeat("y", 257))+networkProxy("", ""))
	add("no id", `"processId":"",`+networkProxy("", asks))
	add("two mistakes", `"argv":[],`+networkProxy(`"enabled":false`, `"policyDecisionTimeoutMs":0`))
	add("disabled and no time", networkProxy(`"enabled":false`, `"policyDecisionTimeoutMs":0`))
	for _, managed := range []string{
		`null`, `{}`, `5`, `{"loopbackPorts":null}`, `{"loopbackPorts":[0]}`, `{"loopbackPorts":[65536]}`, `{"loopbackPorts":[-1]}`, `{"loopbackPorts":["x"]}`,
		`{"allowLocalBinding":null}`, `{"allowLocalBinding":true,"dangerouslyAllowAllUnixSockets":true}`, `{"unknown":1}`,
	} {
		add("managedNetwork "+managed, `"managedNetwork":`+managed)
	}
	for _, enforce := range []string{`null`, `1`, `"x"`, `true`} {
		add("enforceManagedNetwork "+enforce, `"enforceManagedNetwork":`+enforce)
	}
	return rows
}

// startDifferences are the answers that are meant to differ.
var startDifferences = []difference{
	{`settings "unixSockets":[]`, "the message does not name an internal type", `{"error":{"code":-32602,"message":"invalid type: sequence, expected a map"}}`},
	{`settings "unixSockets":{"/a\u0000b":"allow"}`, "NUL is quoted as Go does", `{"error":{"code":-32602,"message":"invalid network proxy config: invalid network.allow_unix_sockets[0]: ` +
		`expected a NUL-free absolute path for Linux, got \"/a\\x00b\""}}`},
}
