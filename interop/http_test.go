//go:build interop

package interop_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

func text(s string) *string { return &s }

var hello = text("hello")

// TestHTTP plays requests through both servers, and compares the requests that a web server sees and the answers that the client gets.
func TestHTTP(t *testing.T) {
	t.Parallel()
	for _, group := range []struct {
		name  string
		gets  []get
		other []difference
	}{
		{"requests", requestGets, requestDifferences},
		{"header variables", variableGets, nil},
		{"framing", framingGets, framingDifferences},
		{"urls", urlGets, urlDifferences},
		{"answers", answerGets, answerDifferences},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			playBoth(t, exchange{name: "http " + group.name, compares: headersInAnyOrder, differs: group.other, play: func(p *player) {
				w := newWeb(p)
				for _, g := range group.gets {
					w.do(g)
				}
			}}, shared)
		})
	}
}

var requestGets = []get{
	{label: "plain"},
	{label: "order, case, repeats", method: "GeT", url: "http://SELF/a?b=c#frag", headers: []string{"X-B", "1", "A-a", "2", "x-b", "3", "A-A", "4"}},
	{label: "host given", headers: []string{"X", "1", "Host", "example.org", "Y", "2"}},
	{label: "two hosts", headers: []string{"Host", "a.org", "Host", "b.org"}},
	{label: "accept given", headers: []string{"X", "1", "Accept", "text/x"}},
	{label: "agent and encoding", headers: []string{"User-Agent", "me", "Accept-Encoding", "gzip"}},
	{label: "connection close", headers: []string{"Connection", "close"}},
	{label: "body", method: "POST", headers: []string{"X-A", "1"}, body: hello},
	{label: "empty body", method: "POST", body: text("")},
	{label: "POST without body", method: "POST"},
	{label: "PUT without body", method: "PUT"},
	{label: "PATCH without body", method: "PATCH"},
	{label: "DELETE", method: "DELETE"},
	{label: "GET with body", body: hello},
	{label: "GET with empty body", body: text("")},
	{label: "HEAD", method: "HEAD", reply: "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"},
	{label: "HEAD chunked", method: "HEAD", reply: "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"},
	{label: "head is not HEAD", method: "head"},
	{label: "OPTIONS", method: "OPTIONS"},
	{label: "CONNECT", method: "CONNECT", closes: true},
	{label: "user and password", url: "http://us%40er:pa%3Ass@SELF/x"},
	{label: "user only", url: "http://user@SELF/x"},
	{label: "password only", url: "http://:pw@SELF/x"},
	{label: "user and Authorization", url: "http://user:pw@SELF/x", headers: []string{"Authorization", "Bearer x"}},
	{label: "user and two Authorizations", url: "http://u:p@SELF/", headers: []string{"a", "1", "authorization", "x", "b", "2", "authorization", "y"}},
	{label: "method with a space", method: "G T"},
	{label: "method weird", method: "!#$%&'*+-.^_`|~aZ9"},
	{label: "method long", method: strings.Repeat("A", 3000)},
	{label: "method not ASCII", method: "GÉT"},
	{label: "name empty", headers: []string{"", ""}},
	{label: "name with a space", headers: []string{"a b", "c"}},
	{label: "name not ASCII", headers: []string{"X-é", "1"}},
	{label: "name with a colon", headers: []string{"a:", "1"}},
	{label: "name with an at", headers: []string{"a@b", "1"}},
	{label: "name of 70000", headers: []string{strings.Repeat("X", 70000), "1"}},
	{label: "value with a line break", headers: []string{"X", "a\nb"}},
	{label: "value with DEL", headers: []string{"X", "a\x7fb"}},
	{label: "value with a tab", headers: []string{"X", "a\tb"}},
	{label: "value padded", headers: []string{"X", " lead trail "}},
	{label: "value not ASCII", headers: []string{"X", "é"}},
	{label: "value with a control", headers: []string{"X", "a\x01"}},
	{label: "value empty", headers: []string{"X", ""}},
	{label: "errors: method before url", url: "nope", method: "G T", headers: []string{"a b", "c"}},
	{label: "errors: scheme before header", url: "ftp://x", headers: []string{"a b", "c"}},
	{label: "errors: header before timeout", headers: []string{"a b", "c"}, more: map[string]any{"timeoutMs": 0}},
	{label: "refused", url: "http://127.0.0.1:1/x?y#z"},
	{label: "refused, with a password", url: "http://u:p@127.0.0.1:1/x"},
	{label: "no such host", url: "http://nowhere.invalid/"},
	{label: "TLS to plain text", url: "https://SELF/", closes: true},
	{label: "timeout 0", more: map[string]any{"timeoutMs": 0}},
	{label: "timeout huge", more: map[string]any{"timeoutMs": uint64(1<<64 - 1)}},
	{label: "timeout negative", more: map[string]any{"timeoutMs": -1}},
	{label: "timeout null", more: map[string]any{"timeoutMs": nil}},
	{label: "policy unknown", more: map[string]any{"redirectPolicy": "bogus"}},
	{label: "policy null", more: map[string]any{"redirectPolicy": nil}},
	{label: "body not base64", method: "POST", more: map[string]any{"bodyBase64": "a!"}},
	{label: "body null", method: "POST", more: map[string]any{"bodyBase64": nil}},
	{label: "headers null", more: map[string]any{"headers": nil}},
	{label: "id of a number", more: map[string]any{"requestId": 5}},
	{label: "large body", method: "POST", body: text(strings.Repeat("0123456789abcdef", 1<<19))},
}

const (
	emptyBody   = "net/http says of POST, PUT and PATCH that they have no body"
	oneLine     = "net/http sends one line of these"
	oneCoding   = "net/http knows no transfer coding but chunked"
	oneLength   = "net/http leaves one length"
	nearlyHTTP  = "net/http is more lenient"
	notQuiteIt  = "net/http is stricter"
	okFetched   = `{"answer":{"result":{"body":"ok","headers":[{"name":"content-length","value":"2"}],"status":200}},`
	notFetched  = `{"answer":{"error":{"code":-32603,"message":"http/request failed: error sending request for url (http://127.0.0.1:SELF/)"}},`
	usualFields = `accept: */*\r\nhost: 127.0.0.1:SELF\r\n`
)

// exchanged is an answer and the request, without its usual headers.
func exchanged(answer, line, more string) string {
	return answer + `"requests":["` + line + ` HTTP/1.1\r\n` + usualFields + more + `"]}`
}

var requestDifferences = []difference{
	{"two hosts", oneLine, okFetched + `"requests":["GET / HTTP/1.1\r\nhost: a.org\r\naccept: */*\r\n\r\n"]}`},
	{"empty body", emptyBody, exchanged(okFetched, "POST /", `content-length: 0\r\n\r\n`)},
	{"POST without body", emptyBody, exchanged(okFetched, "POST /", `content-length: 0\r\n\r\n`)},
	{"PUT without body", emptyBody, exchanged(okFetched, "PUT /", `content-length: 0\r\n\r\n`)},
	{"PATCH without body", emptyBody, exchanged(okFetched, "PATCH /", `content-length: 0\r\n\r\n`)},
	{"body null", emptyBody, exchanged(okFetched, "POST /", `content-length: 0\r\n\r\n`)},
	{"value padded", "spaces around a value have no meaning", exchanged(okFetched, "GET /", `x: lead trail\r\n\r\n`)},
}

var framingDifferences = []difference{
	{"length twice", oneLine, exchanged(okFetched, "POST /", `content-length: 5\r\n\r\nhello`)},
	{"gzip", oneCoding, notFetched + `"requests":null}`},
	{"chunked POST without body", emptyBody, exchanged(okFetched, "POST /", `content-length: 0\r\n\r\n`)},
}

var variableGets = []get{
	{label: "there", headers: []string{"X", "pre $$PLAIN"}},
	{label: "empty prefix", headers: []string{"X", "$$PLAIN", "Y", "$$SPACE"}},
	{label: "case of names", headers: []string{"X", "$$plain"}},
	{label: "missing", headers: []string{"X-H", "pre $$NOPE"}},
	{label: "empty", headers: []string{"X-H", "pre $$EMPTY"}},
	{label: "line breaks", headers: []string{"X-H", "pre $$LINES"}},
	{label: "no name", headers: []string{"X-H", "pre $$"}},
	{label: "denied", headers: []string{"X-H", "$$OPENAI_FEDERATION_RULE_ID"}},
	{label: "denied in lower case", headers: []string{"X-H", "$$openai_identity_token_file"}},
	{label: "denied though missing", headers: []string{"X-H", "$$Aws_Session_Token"}},
	{label: "denied key", headers: []string{"X-H", "$$OPENAI_API_KEY"}},
	{label: "denied key of codex", headers: []string{"X-H", "$$codex_api_key"}},
	{label: "denied noise token", headers: []string{"X-H", "$$CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN"}},
	{label: "denied context", headers: []string{"X-H", "$$OPENAI_WORKLOAD_IDENTITY_CONTEXT"}},
	{label: "denied access token", headers: []string{"X-H", "$$CODEX_ACCESS_TOKEN"}},
	{label: "denied connectors", headers: []string{"X-H", "$$CODEX_CONNECTORS_TOKEN"}},
	{label: "denied AWS", headers: []string{"X-H", "$$AWS_ACCESS_KEY_ID"}},
	{label: "denied AWS secret", headers: []string{"X-H", "$$AWS_SECRET_ACCESS_KEY"}},
	{label: "denied Azure", headers: []string{"X-H", "$$AZURE_CLIENT_SECRET"}},
	{label: "denied Azure file", headers: []string{"X-H", "$$AZURE_FEDERATED_TOKEN_FILE"}},
	{label: "denied Google", headers: []string{"X-H", "$$GOOGLE_APPLICATION_CREDENTIALS"}},
	{label: "allowed though secret", headers: []string{"X-H", "$$GITHUB_TOKEN"}},
	{label: "name of the header first", headers: []string{"a b", "$$NOPE"}},
	{label: "first bad header counts", headers: []string{"A", "$$NOPE", "b b", "x"}},
	{label: "first bad header counts, other way", headers: []string{"A", "x\n", "B", "$$NOPE"}},
}

// framingGets have headers about the length of the body. The origin answers at the end of the head, because the body may never be
// complete.
var framingGets = []get{
	{label: "length right", method: "POST", body: hello, headers: []string{"content-length", "5"}},
	{label: "length too small", method: "POST", body: hello, headers: []string{"content-length", "3"}},
	{label: "length nonsense", method: "POST", body: hello, headers: []string{"content-length", "x"}, closes: true},
	{label: "length twice", method: "POST", body: hello, headers: []string{"content-length", "5", "content-length", "5"}},
	{label: "length zero, no body", method: "POST", headers: []string{"Content-Length", "0"}},
	{label: "chunked", method: "POST", body: hello, headers: []string{"Transfer-Encoding", "chunked"}},
	{label: "gzip", method: "POST", body: hello, headers: []string{"transfer-encoding", "gzip"}},
	{label: "chunked and length", method: "POST", body: hello, headers: []string{"transfer-encoding", "chunked", "content-length", "5"}},
	{label: "chunked GET without body", headers: []string{"transfer-encoding", "chunked"}},
	{label: "chunked POST without body", method: "POST", headers: []string{"transfer-encoding", "chunked"}},
	{label: "expect", method: "POST", body: hello, headers: []string{"expect", "100-continue"}},
}

// urlGets are labelled by their URLs.
var urlGets = getsOf("-", "nope", "/x", "//h/x", "ftp://x", "file:///x", "data:,x", "http://", "http:///x", "http:x", "http:SELF/q",
	"HTTP://SELF/Q", "http://127.0.0.1:99999/", "http://127.0.0.1:x/", "http://[::1", "http://a b/", "http://SELF/a b",
	"http://SELF/é?é=ü&a=b c#x", "http://SELF/a/../b/./c//d", "http://SELF/%zz%2f", "http://SELF?q", `http://SELF/a\b`,
	" http://SELF/sp ", "http://SELF/a\tb\nc", "http://127.1:PORT/", "http://2130706433:PORT/", "http://0x7f.1:PORT/",
	"http://localhost:PORT/", "http://LOCALHOST:PORT/", "http://SELF/\"<>`{}|^[]'?\"<>`{}|^[]'#", "http://SELF/%2e%2e/x/%2E/y",
	"http://ex%41mple..:1/", "http://exa<mple/", "http://127.0.0.1:0PORT/", "ws://x", "1http://x", "http://user@/x",
	"http://256.1.1.1/", "http://xn--a/", "http://[::1%25lo]:1/", "http://127.0.0.1:/x", "http:/SELF/oneslash",
	`http:\\SELF\bs`, "mailto:x@y", "https://127.0.0.1:1/x")

func getsOf(urls ...string) (gets []get) {
	for _, u := range urls {
		gets = append(gets, get{label: fmt.Sprintf("%q", u), url: u})
	}
	return gets
}

var urlDifferences = []difference{
	{fmt.Sprintf("%q", "http://xn--a/"), "bad punycode is left to the resolver, which does not know it either",
		`{"answer":{"error":{"code":-32603,"message":"http/request failed: error sending request for url (http://xn--a/)"}},"requests":null}`},
}

func ok(fields string, body string) string { return "HTTP/1.1 200 OK\r\n" + fields + "\r\n" + body }

var answerGets = append([]get{
	{label: "order", reply: ok("B: 1\r\nA: 2\r\nb: 3\r\nSet-Cookie: x\r\nA: 4\r\nset-cookie: y\r\ncontent-length: 0\r\n", "")},
	{label: "values", reply: ok("A: \xc3\xa9\r\nB: a\tb\r\nC:   pad  \r\nD:\r\nE: \xff\r\ncontent-length: 0\r\n", "")},
	{label: "status only", reply: "HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok"},
	{label: "reason not ASCII", reply: "HTTP/1.1 200 \xc3\xa9\r\ncontent-length: 2\r\n\r\nok"},
	{label: "interim answers", reply: "HTTP/1.1 100 C\r\nx: y\r\n\r\nHTTP/1.1 103 E\r\n\r\n" + ok("content-length: 2\r\n", "ok")},
	{label: "204 with length", reply: "HTTP/1.1 204 N\r\ncontent-length: 2\r\n\r\n", closes: true},
	{label: "chunked", reply: ok("transfer-encoding: chunked\r\n", "2;x=y\r\nok\r\n0\r\nT: v\r\n\r\n")},
	{label: "gzip content", reply: ok("content-encoding: gzip\r\ncontent-length: 2\r\n", "ok")},
	{label: "8 MiB", reply: ok(fmt.Sprintf("content-length: %d\r\n", 8<<20), strings.Repeat("0123456789abcdef", 1<<19))},
}, closingGets()...)

// closingGets are answers after which the origin closes.
func closingGets() (gets []get) {
	for _, row := range [][2]string{
		{"value with a control", ok("A: a\x01b\r\ncontent-length: 0\r\n", "")},
		{"value with DEL", ok("A: a\x7fb\r\ncontent-length: 0\r\n", "")},
		{"bad name", ok("A B: x\r\ncontent-length: 0\r\n", "")},
		{"space before colon", ok("A : x\r\ncontent-length: 0\r\n", "")},
		{"no colon", ok("Abc\r\ncontent-length: 0\r\n", "")},
		{"folded", ok("A: x\r\n y\r\ncontent-length: 0\r\n", "")},
		{"bare line feeds", "HTTP/1.1 200 OK\nA: x\ncontent-length: 2\n\nok"},
		{"1.0 to the end", "HTTP/1.0 200 OK\r\n\r\nok"},
		{"1.1 to the end", "HTTP/1.1 200 OK\r\n\r\nok"},
		{"2.0", "HTTP/2.0 200 OK\r\n\r\nok"},
		{"0.9", "hello\r\n\r\n"},
		{"404", "HTTP/1.1 404 N\r\ncontent-length: 2\r\n\r\nno"},
		{"500", "HTTP/1.1 500 N\r\ncontent-length: 2\r\n\r\nno"},
		{"999", "HTTP/1.1 999 X\r\ncontent-length: 2\r\n\r\nok"},
		{"099", "HTTP/1.1 099 X\r\ncontent-length: 2\r\n\r\nok"},
		{"1000", "HTTP/1.1 1000 X\r\ncontent-length: 2\r\n\r\nok"},
		{"101", "HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello"},
		{"304 with length", "HTTP/1.1 304 N\r\ncontent-length: 2\r\n\r\nok"},
		{"chunked and length", ok("content-length: 9\r\ntransfer-encoding: chunked\r\n", "2\r\nok\r\n0\r\n\r\n")},
		{"gzip, chunked", ok("transfer-encoding: gzip, chunked\r\n", "2\r\nok\r\n0\r\n\r\n")},
		{"identity", ok("transfer-encoding: identity\r\n", "ok")},
		{"1.0 chunked", "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"chunk bad", ok("transfer-encoding: chunked\r\n", "zz\r\nok\r\n0\r\n\r\n")},
		{"chunk cut", ok("transfer-encoding: chunked\r\n", "5\r\nok")},
		{"chunks without end", ok("transfer-encoding: chunked\r\n", "2\r\nok\r\n")},
		{"length twice", ok("content-length: 2\r\ncontent-length: 2\r\n", "ok")},
		{"length list", ok("content-length: 2, 2\r\n", "ok")},
		{"lengths differ", ok("content-length: 2\r\ncontent-length: 3\r\n", "ok")},
		{"length nonsense", ok("content-length: x\r\n", "ok")},
		{"length negative", ok("content-length: -1\r\n", "ok")},
		{"length plus", ok("content-length: +2\r\n", "ok")},
		{"length empty", ok("content-length: \r\n", "ok")},
		{"length huge", ok("content-length: 99999999999999999999999\r\n", "ok")},
		{"body short", ok("content-length: 5\r\n", "ok")},
		{"body long", ok("content-length: 1\r\n", "ok")},
		{"head cut", "HTTP/1.1 200 OK\r\ncon"},
		{"empty line first", "\r\n" + ok("content-length: 2\r\n", "ok")},
		{"many interim answers", strings.Repeat("HTTP/1.1 100 C\r\n\r\n", 200) + ok("content-length: 2\r\n", "ok")},
		{"100 fields", ok(strings.Repeat("a: b\r\n", 99)+"content-length: 0\r\n", "")},
		{"101 fields", ok(strings.Repeat("a: b\r\n", 100)+"content-length: 0\r\n", "")},
		{"field of 300 KiB", ok("x: "+strings.Repeat("y", 300<<10)+"\r\ncontent-length: 0\r\n", "")},
		{"field of 500 KiB", ok("x: "+strings.Repeat("y", 500<<10)+"\r\ncontent-length: 0\r\n", "")},
		{"field of 2000 KiB", ok("x: "+strings.Repeat("y", 2000<<10)+"\r\ncontent-length: 0\r\n", "")},
	} {
		gets = append(gets, get{label: row[0], reply: row[1], closes: true})
	}
	return append(gets,
		get{label: "closed at once", act: func(string) any { return func(net.Conn) {} }, closes: true, method: "POST", body: hello},
		get{label: "reset", act: func(string) any { return func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) } }, closes: true, method: "POST", body: hello},
		get{label: "reset in the body", act: func(string) any {
			return func(c net.Conn) { fmt.Fprint(c, ok("content-length: 9\r\n", "ok")); c.(*net.TCPConn).SetLinger(0) }
		}, closes: true, method: "POST", body: hello},
	)
}

const (
	largerHeads = "heads may have 4096 fields and 1 MiB"
	asking      = `"requests":["GET / HTTP/1.1\r\naccept: */*\r\nhost: 127.0.0.1:SELF\r\n\r\n"]}`
)

var answerDifferences = []difference{
	{"folded", nearlyHTTP, `{"answer":{"result":{"body":"","headers":[{"name":"a","value":"x y"},{"name":"content-length","value":"0"}],"status":200}},` + asking},
	{"1.0 chunked", nearlyHTTP, `{"answer":{"result":{"body":"2\r\nok\r\n0\r\n\r\n","headers":[],"status":200}},` + asking},
	{"chunked and length", oneLength, `{"answer":{"result":{"body":"ok","headers":[{"name":"transfer-encoding","value":"chunked"}],"status":200}},` + asking},
	{"length twice", oneLength, okFetched + asking},
	{"gzip, chunked", oneCoding, notFetched + asking},
	{"identity", oneCoding, notFetched + asking},
	{"length list", notQuiteIt, notFetched + asking},
	{"empty line first", notQuiteIt, notFetched + asking},
	{"101 fields", largerHeads, `{"answer":{"result":{"body":"","headers":[` + strings.Repeat(`{"name":"a","value":"b"},`, 100) +
		`{"name":"content-length","value":"0"}],"status":200}},` + asking},
	{"field of 500 KiB", largerHeads, `{"answer":{"result":{"body":"","headers":[{"name":"x","value":"` + shorten(strings.Repeat("y", 500<<10)) +
		`"},{"name":"content-length","value":"0"}],"status":200}},` + asking},
}

// moved answers / with a redirect and everything else with 200.
func moved(status int, location string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nlocation: %s\r\ncontent-length: 2\r\nset-cookie: a=b\r\n\r\nno", status, location)
}

// everything has headers some of which must not be sent to another host.
var everything = []string{"Content-Type", "text/plain", "X-A", "1", "Content-Encoding", "q", "Authorization", "Bearer t", "Cookie", "c=d",
	"Proxy-Authorization", "p", "WWW-Authenticate", "w", "Cookie2", "z", "Content-Language", "de", "Content-MD5", "m",
	"Referer", "http://mine/", "Host", "given.example", "Transfer-X", "q"}

// A redirect is a get whose path is answered with locations, by path.
type redirect struct {
	get
	path  string // / unless said
	moves map[string]string
}

func chain(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("/%d", i)] = moved(302, fmt.Sprintf("/%d", i+1))
	}
	return m
}

func one(status int, location string) map[string]string {
	return map[string]string{"/": moved(status, location)}
}

var redirects = append(statusRedirects(),
	redirect{get{label: "PUT 301", method: "PUT", body: hello}, "", one(301, "/b")},
	redirect{get{label: "PUT 303", method: "PUT", body: hello}, "", one(303, "/b")},
	redirect{get{label: "HEAD 307", method: "HEAD"}, "", map[string]string{"/": "HTTP/1.1 307 X\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n", "/b": ok("content-length: 0\r\n", "")}},
	redirect{get{label: "HEAD 303", method: "HEAD"}, "", map[string]string{"/": "HTTP/1.1 303 X\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n", "/b": ok("content-length: 0\r\n", "")}},
	redirect{get{label: "DELETE 302", method: "DELETE", body: hello}, "", one(302, "/b")},
	redirect{get{label: "post 302", method: "post", body: hello}, "", one(302, "/b")},
	redirect{get{label: "other host 307", method: "POST", body: hello, headers: everything}, "", one(307, "http://OTHER/z")},
	redirect{get{label: "other host 302", method: "POST", body: hello, headers: everything}, "", one(302, "http://OTHER/z")},
	redirect{get{label: "other name", headers: []string{"Authorization", "x"}}, "", one(307, "http://localhost:PORT/z")},
	redirect{get{label: "user in the location"}, "", one(302, "http://us:pw@SELF/b")},
	redirect{get{label: "user in the location, Authorization", headers: []string{"Authorization", "x"}}, "", one(302, "http://us:pw@SELF/b")},
	redirect{get{label: "user in the URL", url: "http://u:p@SELF/#f"}, "", one(302, "/b")},
	redirect{get{label: "relative"}, "/a/b?c#g", map[string]string{"/a/b?c": moved(302, "d?e#f")}},
	redirect{get{label: "referers"}, "/a?q=1#g", map[string]string{"/a?q=1": moved(302, "/b#x"), "/b": moved(302, "/c")}},
	redirect{get{label: "empty location"}, "", one(302, "")},
	redirect{get{label: "bad location"}, "", one(302, "http://[")},
	redirect{get{label: "ftp location"}, "", one(302, "ftp://x/")},
	redirect{get{label: "file location"}, "", one(302, "file:///etc/passwd")},
	redirect{get{label: "space in the location"}, "", one(302, "/a b")},
	redirect{get{label: "location not ASCII"}, "", one(302, "/é")},
	redirect{get{label: "location not UTF-8"}, "", one(302, "/\xff")},
	redirect{get{label: "location without scheme"}, "", one(302, "//OTHER/x")},
	redirect{get{label: "no location"}, "", map[string]string{"/": "HTTP/1.1 302 X\r\ncontent-length: 2\r\n\r\nok"}},
	redirect{get{label: "length given, 307", method: "POST", body: hello, headers: []string{"Content-Length", "5"}}, "", one(307, "/b")},
	redirect{get{label: "length given, 302", method: "POST", body: hello, headers: []string{"Content-Length", "5"}}, "", one(302, "/b")},
	redirect{get{label: "dead end"}, "", one(302, "http://127.0.0.1:1/x")},
	redirect{get{label: "loop"}, "", one(302, "/")},
	redirect{get{label: "ten"}, "/0", chain(10)},
	redirect{get{label: "eleven"}, "/0", chain(11)},
)

// statusRedirects have each status, followed and not.
func statusRedirects() (rows []redirect) {
	for _, status := range []int{300, 301, 302, 303, 304, 305, 306, 307, 308} {
		row := redirect{get{label: fmt.Sprint(status), method: "POST", body: hello, headers: everything}, "", one(status, "/b")}
		if status == 304 { // has no body
			row.moves["/"] = "HTTP/1.1 304 X\r\nlocation: /b\r\n\r\n"
		}
		stop := row
		stop.label, stop.more = row.label+" stop", map[string]any{"redirectPolicy": "stop"}
		rows = append(rows, row, stop)
	}
	return rows
}

// TestHTTPRedirects follows redirects and stops at them.
func TestHTTPRedirects(t *testing.T) {
	t.Parallel()
	playBoth(t, exchange{name: "http redirects", compares: headersInAnyOrder, play: func(p *player) {
		w := newWeb(p)
		for _, r := range redirects {
			g := r.get
			if g.url == "" {
				g.url = "http://SELF/" + strings.TrimPrefix(r.path, "/")
			}
			g.act = func(head string) any {
				if answer, ok := r.moves[strings.Split(head, " ")[1]]; ok {
					return w.expand(answer)
				}
				return okAnswer
			}
			w.do(g)
		}
	}}, shared)
}
