package conformance

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A rawRequest has the bytes that an attack sends to a proxy.
type rawRequest struct{ name, text string }

// sendRequests is a script that sends each request to the proxy on a connection of its own, all at the same time, and prints
// the answers. The requests are files in the workspace, so that no shell has to quote them. Some of them are incomplete, so
// the script reads an answer of HTTP for httpSeconds at most, and one of SOCKS for socksSeconds.
func sendRequests(httpSeconds, socksSeconds int) string {
	return fmt.Sprintf(`cd $WS; ls http/* > /dev/null && $PROBE exchange 127.0.0.1:${HTTP_PROXY##*:} %d http/* > said.http &
	ls socks/* > /dev/null && $PROBE exchange 127.0.0.1:${ALL_PROXY##*:} %d socks/* > said.socks; wait; cat said.*`, httpSeconds, socksSeconds)
}

// storeRequests writes requests into the workspace.
func (fx *fixture) storeRequests(http, socks []rawRequest) {
	fx.t.Helper()
	for dir, requests := range map[string][]rawRequest{"http": http, "socks": socks} {
		for i, s := range requests {
			fx.write(fmt.Sprintf("$WS/%s/%s%03d", dir, dir, i), s.text)
		}
	}
}

// answers returns the proxy's answer to each request, by the name of the request.
func answers(o outcome, http, socks []rawRequest) map[string]string {
	parts, said := sections(o.stdout), map[string]string{}
	for dir, requests := range map[string][]rawRequest{"http": http, "socks": socks} {
		for i, s := range requests {
			said[dir+" "+s.name] = parts[fmt.Sprintf("%s%03d", dir, i)]
		}
	}
	return said
}

// forbiddenPort is a port that no rule allows.
const forbiddenPort = 81

// localHosts returns many spellings of addresses of this machine and of its neighbourhood.
func localHosts() []string {
	return []string{
		"127.0.0.1", "localhost", "LocalHost", "localhost.", "foo.localhost", "[::1]", "0.0.0.0", "[::]", "127.0.0.1.",
		"2130706433", "0x7f000001", "0X7F000001", "017700000001", "0177.0.0.1", "127.1", "127.0.1", "0", "0x0", "0x7f.1", "127.000.000.001", "00127.0.0.1",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]",
		"[::1%25lo]", "[::1%lo]", "[fe80::1%25lo]", "127.0.0.1%25lo",
		metadataAddress, metadataAddress + ".", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "169.254.43518", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]",
		"[fd00:ec2::254]", privateAddress, "10.5046273", "[" + privateAddress6 + "]", carrierAddress,
		"①②⑦.⓪.⓪.①", "127。0。0。1", "１２７.0.0.1", "ⓛocalhost", "loc\u00adalhost",
		"loop.example", "LOOP.example.", "loop.example..", "six.example", "zero.example", "private.example", "meta.example", "mixed.example",
		"good.example@127.0.0.1", "good.example:80@127.0.0.1", "good.example%40127.0.0.1", "good.example#@127.0.0.1", `good.example\@127.0.0.1`, "good.example\t@127.0.0.1",
		"127.0.0.1\\.good.example", "127.0.0.1%00.good.example", "127.0.0.1%2f.good.example", "127.0.0.1?.good.example", "127.0.0.1/.good.example",
	}
}

// localRequests returns a request for each of them, in each protocol of the proxy.
func localRequests() (http, socks []rawRequest) {
	request := "GET /attack HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	for _, host := range localHosts() {
		http = append(http,
			rawRequest{"plain " + host, fmt.Sprintf("GET http://%s:%d/attack HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n", host, forbiddenPort)},
			rawRequest{"tunnel " + host, fmt.Sprintf("CONNECT %s:%d HTTP/1.1\r\nHost: good.example\r\n\r\n%s", host, forbiddenPort, request)})
		bare := strings.Trim(host, "[]")
		socks = append(socks, rawRequest{"name " + host, socksRequest(3, string(rune(len(host)))+host) + request})
		if bare != host {
			socks = append(socks, rawRequest{"name " + bare, socksRequest(3, string(rune(len(bare)))+bare) + request})
		}
		if a, err := netip.ParseAddr(bare); err == nil && a.Zone() == "" {
			kind := byte(1)
			if a.Is6() {
				kind = 4
			}
			socks = append(socks, rawRequest{"address " + host, socksRequest(kind, string(a.AsSlice())) + request})
		}
	}
	return http, append(socks,
		rawRequest{"version 4", "\x04\x01\x00\x51\x7f\x00\x00\x01\x00" + request},
		rawRequest{"version 4a", "\x04\x01\x00\x51\x00\x00\x00\x01\x00localhost\x00" + request},
		rawRequest{"bind", "\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x51" + request},
		rawRequest{"udp", "\x05\x01\x00\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x51" + request},
		rawRequest{"no name", socksRequest(3, "\x00") + request},
		rawRequest{"NUL", socksRequest(3, "\x16good.example\x00127.0.0.1") + request},
		rawRequest{"short", "\x05\x01\x00\x05\x01\x00\x03\xff127.0.0.1\x00\x51"},
		rawRequest{"kind 2", socksRequest(2, "\x7f\x00\x00\x01") + request},
		rawRequest{"http", "GET http://127.0.0.1:81/ HTTP/1.1\r\nHost: good.example\r\n\r\n"},
	)
}

// socksRequest returns the bytes of a SOCKS5 client up to the data.
func socksRequest(kind byte, address string) string {
	b := append([]byte{5, 1, 0, 5, 1, 0, kind}, address...)
	return string(binary.BigEndian.AppendUint16(b, forbiddenPort))
}

// localRules allows all names of the isolated network, whatever their addresses. The client decides about the rest, and
// allows it.
func localRules() map[string]string {
	rules := map[string]string{"*": "allow"}
	for _, name := range []string{"good", "loop", "six", "zero", "private", "meta", "mixed"} {
		rules[name+".example"] = "allow"
	}
	return rules
}

// No spelling of a local address makes the proxy connect to it, unless the rules allow that very address. It does not matter
// what the client allows by name.
func TestAdversaryProxyLocal(t *testing.T) {
	http, socks := localRequests()
	eachIsolatedAccount(t, func(t *testing.T, a *account) {
		_, s := isolatedServer(t, a, func(fx *fixture) { fx.storeRequests(http, socks) })
		trap := newSite(t, "tcp", fmt.Sprintf(":%d", forbiddenPort))
		s.decideBy(t, allowAll)
		for _, mode := range []string{"rules", "client"} {
			rules := localRules()
			if mode == "client" {
				rules = map[string]string{"good.example": "allow"}
			}
			o := s.script(t, workspaceOnly(), sendRequests(60, 5), enforce(networkProxy(rules, asked))).finish(t)
			if n := trap.visited(); n > 0 {
				t.Errorf("%s: the trap was reached %d times: %q", mode, n, trap.sent())
			}
			for name, said := range answers(o, http, socks) {
				if strings.HasPrefix(name, "http ") && !regexp.MustCompile(`^HTTP/1\.1 [45]\d\d `).MatchString(said) {
					t.Errorf("%s: %s: the proxy said %.300q", mode, name, said)
				}
				if strings.HasPrefix(name, "socks ") && regexp.MustCompile(`^\x05\x00\x05\x00`).MatchString(said) {
					t.Errorf("%s: %s: the proxy said %.300q", mode, name, said)
				}
			}
			for _, d := range o.decisions {
				if d.Decision == "allow" && isLocal(d.Host) {
					t.Errorf("%s: %v", mode, d)
				}
			}
		}
	})
}

// isLocal reports whether a host is one of the local addresses of the isolated network.
func isLocal(host string) bool {
	return slices.Contains([]string{"127.0.0.1", "localhost", "::1", "0.0.0.0", "::", metadataAddress, privateAddress, privateAddress6, carrierAddress,
		"loop.example", "six.example", "zero.example", "private.example", "meta.example", "mixed.example"}, host)
}

// If the rules name the addresses, the same requests succeed, so the test above can fail.
func TestAdversaryProxyLocalControl(t *testing.T) {
	http, socks := localRequests()
	socks = slices.DeleteFunc(socks, func(r rawRequest) bool { // the others are refused, or never complete
		return !strings.HasPrefix(r.name, "name ") && !strings.HasPrefix(r.name, "address ")
	})
	eachIsolatedAccount(t, func(t *testing.T, a *account) {
		_, s := isolatedServer(t, a, func(fx *fixture) { fx.storeRequests(http, socks) })
		trap := newSite(t, "tcp", fmt.Sprintf(":%d", forbiddenPort))
		rules := localRules()
		for _, address := range []string{"127.0.0.1", "localhost", "::1", metadataAddress, privateAddress} {
			rules[address] = "allow"
		}
		o := s.script(t, workspaceOnly(), sendRequests(60, 60), enforce(networkProxy(rules, map[string]any{"allowLocalBinding": true}))).finish(t)
		said := answers(o, http, socks)
		for _, host := range []string{"127.0.0.1", "localhost", "[::1]", metadataAddress, privateAddress, "loop.example", "six.example", "private.example"} {
			for _, way := range []string{"http plain ", "http tunnel ", "socks name "} {
				if !strings.Contains(said[way+host], siteText) {
					t.Errorf("%s%s: the proxy said %.300q", way, host, said[way+host])
				}
			}
		}
		for _, address := range []string{"127.0.0.1", "[::1]", metadataAddress} {
			if !strings.Contains(said["socks address "+address], siteText) {
				t.Errorf("socks address %s: the proxy said %.300q", address, said["socks address "+address])
			}
		}
		if trap.visited() == 0 {
			t.Error("no request reached the forbidden port")
		}
	})
}

// smuggling returns requests that two parsers may understand differently. An allowed host and a forbidden one have the same
// address.
func smuggling() []rawRequest {
	const (
		inner = "GET /smuggled HTTP/1.1\r\nHost: vhost.example\r\nX: y\r\n\r\n"
		last  = "GET http://good.example/last HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n"
		to    = "POST http://good.example/a HTTP/1.1\r\nHost: good.example\r\n"
	)
	chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner)
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d\r\n", n) }
	list := []rawRequest{
		{"CL.TE", to + length(5+len(inner)) + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner + last},
		{"TE.CL", to + length(4) + "Transfer-Encoding: chunked\r\n\r\n" + chunk + last},
		{"TE twice", to + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n" + length(4) + "\r\n" + chunk + last},
		{"CL twice", to + length(0) + length(len(inner)) + "\r\n" + inner + last},
		{"CL list", to + "Content-Length: 0, " + fmt.Sprint(len(inner)) + "\r\n\r\n" + inner + last},
		{"CL sign", to + "Content-Length: +" + fmt.Sprint(len(inner)) + "\r\n\r\n" + inner + last},
		{"CL hex", to + fmt.Sprintf("Content-Length: 0x%x\r\n\r\n", len(inner)) + inner + last},
		{"CL GET", "GET http://good.example/a HTTP/1.1\r\nHost: good.example\r\n" + length(len(inner)) + "\r\n" + inner + last},
		{"no length", to + "\r\n" + inner + last},
		{"HTTP/1.0 TE", "POST http://good.example/a HTTP/1.0\r\nHost: good.example\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner + last},
		{"bare LF", strings.ReplaceAll(to+length(0)+"\r\n"+inner+last, "\r\n", "\n")},
		{"bare CR", to + "X: y\rHost: vhost.example\r\n\r\n" + last},
		{"folded", to + "X: y\r\n Host: vhost.example\r\n" + length(0) + "\r\n" + last},
		{"space before host", "GET http://good.example/a HTTP/1.1\r\n Host: vhost.example\r\nHost: good.example\r\n\r\n" + last},
		{"chunk size", to + "Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n" + inner + last},
		{"chunk LF", to + "Transfer-Encoding: chunked\r\n\r\n0\n\n" + inner + last},
		{"chunk extension", to + "Transfer-Encoding: chunked\r\n\r\n0;\nx\r\n\r\n" + inner + last},
		{"chunk too long", to + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n" + inner + last},
		{"trailer", to + "Transfer-Encoding: chunked\r\nTrailer: Host, Content-Length\r\n\r\n0\r\nHost: vhost.example\r\nContent-Length: 9\r\n\r\n" + last},
		{"other host", "GET http://good.example/a HTTP/1.1\r\nHost: vhost.example\r\n\r\n" + last},
		{"two hosts", "GET http://good.example/a HTTP/1.1\r\nHost: good.example\r\nHost: vhost.example\r\n\r\n" + last},
		{"host of the connection", "GET http://good.example/a HTTP/1.1\r\nHost: vhost.example\r\nConnection: Host\r\n\r\n" + last},
		{"no host", "GET http://good.example/a HTTP/1.1\r\n\r\n" + last},
		{"origin form", "GET /a HTTP/1.1\r\nHost: vhost.example\r\n\r\n" + last},
		{"origin form of a friend", last[:len(last)-len("Connection: close\r\n\r\n")] + "\r\n" + inner + last},
		{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: vhost.example\r\n\r\n" + last},
		{"double slash", "GET //evil.example/a HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"path with a host", "GET http://good.example//vhost.example/a HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"line break in the path", "GET http://good.example/%0d%0aHost:%20vhost.example%0d%0a%0d%0aGET%20/smuggled HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"line break in a name", "GET http://good.example/a HTTP/1.1\r\nHost: good.example\r\nX: \rHost: vhost.example\r\n\r\n" + last},
		{"second host", "GET http://good.example/a HTTP/1.1\r\nHost: good.example\r\n\r\nGET http://evil.example/b HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"second vhost", "GET http://good.example/a HTTP/1.1\r\nHost: good.example\r\n\r\nGET http://vhost.example/b HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"user", "GET http://good.example@evil.example/a HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"user and port", "GET http://good.example:80@evil.example/a HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"backslash", "GET http://evil.example\\@good.example/a HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"fragment", "GET http://evil.example#@good.example/a HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"scheme", "GET https://evil.example/a HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"ftp", "GET ftp://evil.example/a HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"file", "GET file:///etc/passwd HTTP/1.1\r\nHost: good.example\r\n\r\n" + last},
		{"one slash", "GET http:/evil.example/a HTTP/1.1\r\nHost: evil.example\r\n\r\n" + last},
		{"upgrade", "GET http://good.example/a HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + inner + last},
		{"preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + last},
		{"HTTP/0.9", "GET http://evil.example/\r\n"},
		{"tunnel to evil", "CONNECT evil.example:80 HTTP/1.1\r\nHost: good.example:80\r\n\r\n" + inner},
		{"tunnel with a user", "CONNECT good.example:80@evil.example:80 HTTP/1.1\r\nHost: good.example:80\r\n\r\n" + inner},
		{"tunnel to a URL", "CONNECT http://evil.example:80/ HTTP/1.1\r\nHost: good.example:80\r\n\r\n" + inner},
		{"tunnel with two ports", "CONNECT good.example:80:81 HTTP/1.1\r\nHost: good.example:80\r\n\r\n" + inner},
		{"tunnel with a path", "CONNECT good.example:80/../evil.example HTTP/1.1\r\nHost: good.example:80\r\n\r\n" + inner},
		{"tunnel without a port", "CONNECT evil.example HTTP/1.1\r\nHost: good.example:80\r\n\r\n" + inner},
		{"tunnel to port 0", "CONNECT good.example:0 HTTP/1.1\r\nHost: good.example:80\r\n\r\n" + inner},
		{"tunnel to a large port", "CONNECT good.example:65617 HTTP/1.1\r\nHost: good.example:80\r\n\r\n" + inner},
		{"tunnel to the host header", "CONNECT :80 HTTP/1.1\r\nHost: evil.example:80\r\n\r\n" + inner},
		{"refused tunnel, then another", "CONNECT evil.example:80 HTTP/1.1\r\nHost: a\r\n\r\nCONNECT vhost.example:80 HTTP/1.1\r\nHost: a\r\n\r\n" + inner},
	}
	for _, spelling := range []string{"Transfer-Encoding : chunked", "Transfer-Encoding:\x0bchunked", "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked\x00",
		"Transfer-Encoding: identity, chunked", "Transfer-Encoding: chunked, chunked", "Transfer_Encoding: chunked", " Transfer-Encoding: chunked", "X: y\nTransfer-Encoding: chunked", "Transfer-Encoding:\tchunked"} {
		list = append(list, rawRequest{"spelled " + spelling, to + length(5+len(inner)) + spelling + "\r\n\r\n0\r\n\r\n" + inner + last})
	}
	return list
}

// bothLengths matches a header with a content length and a transfer encoding.
var bothLengths = regexp.MustCompile(`(?i)(?:content-length:[^\n]*\n(?:[^\r\n]+\r?\n)*transfer-encoding:)|(?:transfer-encoding:[^\n]*\n(?:[^\r\n]+\r?\n)*content-length:)|(?:content-length:[^\n]*\n(?:[^\r\n]+\r?\n)*content-length:)`)

// A request to an allowed host cannot reach a forbidden one, neither at another address nor at the same one.
func TestAdversaryProxySmuggling(t *testing.T) {
	requests := smuggling()
	eachIsolatedAccount(t, func(t *testing.T, a *account) {
		_, s := isolatedServer(t, a, func(fx *fixture) { fx.storeRequests(requests, nil) })
		good, evil := newSite(t, "tcp", goodAddress+":80"), newSite(t, "tcp", evilAddress+":80")
		trap := newSite(t, "tcp", fmt.Sprintf("%s:%d", goodAddress, forbiddenPort))
		rules := map[string]string{"good.example": "allow"}
		o := s.script(t, workspaceOnly(), sendRequests(5, 5), enforce(networkProxy(rules))).finish(t)
		if evil.visited()+trap.visited() > 0 {
			t.Errorf("a forbidden host was reached: %q %q", evil.asked(), trap.asked())
		}
		last := 0
		for _, r := range good.asked() {
			if !strings.Contains(r, " good.example ") || strings.Contains(r, " /smuggled") {
				t.Errorf("a host that is not allowed was asked: %s", r)
			}
			if strings.HasSuffix(r, " /last") {
				last++
			}
		}
		if last == 0 {
			t.Errorf("the allowed requests did not arrive: %s", o.all)
		}
		for _, raw := range good.sent() {
			if found := bothLengths.FindString(raw); found != "" {
				t.Errorf("a request with two lengths was passed on: %q", found)
			}
		}
		for _, d := range o.decisions {
			if d.Decision == "allow" && d.Host != "good.example" {
				t.Errorf("decision %v", d)
			}
		}
		if t.Failed() {
			for name, said := range answers(o, requests, nil) {
				t.Logf("%s: %.200q", name, said)
			}
		}
		// If the rules allow all hosts, the same requests reach them. Two of those that are complete are enough.
		rules["evil.example"], rules["vhost.example"] = "allow", "allow"
		var others []string
		for i, r := range requests {
			if r.name != "second host" && r.name != "second vhost" {
				others = append(others, fmt.Sprintf("http%03d", i))
			}
		}
		send := "(cd $WS/http && rm " + strings.Join(others, " ") + "); " + sendRequests(60, 60)
		s.script(t, workspaceOnly(), send, enforce(networkProxy(rules))).finish(t)
		if got := good.asked(); evil.visited() == 0 || !slices.Contains(got, "GET vhost.example /b") {
			t.Errorf("when all are allowed, evil was reached %d times and good asked for %q", evil.visited(), got)
		}
	})
}

// Bytes in a tunnel go to the allowed host of the tunnel, even if they look like a request to another host.
func TestAdversaryProxyTunnel(t *testing.T) {
	requests := []rawRequest{{"tunnel", "CONNECT good.example:80 HTTP/1.1\r\nHost: evil.example\r\n\r\nGET http://evil.example/x HTTP/1.1\r\nHost: evil.example\r\n\r\n" +
		"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"}}
	eachIsolatedAccount(t, func(t *testing.T, a *account) {
		_, s := isolatedServer(t, a, func(fx *fixture) { fx.storeRequests(requests, nil) })
		good, evil := newSite(t, "tcp", goodAddress+":80"), newSite(t, "tcp", evilAddress+":80")
		o := s.script(t, workspaceOnly(), sendRequests(60, 5), enforce(networkProxy(map[string]string{"good.example": "allow"}))).finish(t)
		if got := good.asked(); len(got) != 2 || evil.visited() != 0 {
			t.Errorf("good was asked for %q, evil reached %d times: %s", got, evil.visited(), o.all)
		}
	})
}

// Datagrams do not leave a managed network. In the network of the host the proxy refuses them too.
func TestAdversaryProxyDatagrams(t *testing.T) {
	associate := []rawRequest{{"associate", "\x05\x01\x00\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00"}}
	eachIsolatedAccount(t, func(t *testing.T, a *account) {
		_, s := isolatedServer(t, a, func(fx *fixture) { fx.storeRequests(nil, associate) })
		resolver := newDatagramSocket(t, "udp", "127.0.0.1:53")
		o := s.script(t, workspaceOnly(), sendRequests(60, 60), enforce(networkProxy(loopback))).finish(t)
		if said := answers(o, nil, associate)["socks associate"]; !strings.HasPrefix(said, "\x05\x00\x05\x07") {
			t.Errorf("the proxy said %q", said)
		}
		if n := resolver.empty(t); n > 0 {
			t.Errorf("%d datagrams came", n)
		}
		o = s.script(t, unconfined(), sendRequests(60, 5), networkProxy(loopback)).finish(t)
		if said := answers(o, nil, associate)["socks associate"]; !strings.HasPrefix(said, "\x05\x00\x05\x00") {
			t.Errorf("on the host's own network, the proxy said %q", said)
		}
	})
}
