package web

import (
	"encoding/base64"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

func TestBytesOfARequest(t *testing.T) {
	login := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	long := strings.Repeat("A", 3000)
	tests := []struct {
		name, url, method, body string
		headers                 []string
		want                    string
	}{
		{"plain", "", "GET", "", nil, lines("GET / HTTP/1.1", "accept: */*", "host: ADDR")},
		{"case, order and repeats", "/a?b=c#frag", "GeT", "", []string{"X-B: 1", "A-a: 2", "x-b: 3", "A-A: 4"},
			lines("GeT /a?b=c HTTP/1.1", "x-b: 1", "x-b: 3", "a-a: 2", "a-a: 4", "accept: */*", "host: ADDR")},
		{"given host", "/", "GET", "", []string{"X: 1", "Host: example.org", "Y: 2"},
			lines("GET / HTTP/1.1", "x: 1", "host: example.org", "y: 2", "accept: */*")},
		{"two hosts", "/", "GET", "", []string{"Host: a.org", "Host: b.org"},
			lines("GET / HTTP/1.1", "host: a.org", "accept: */*")},
		{"given accept", "/", "GET", "", []string{"X: 1", "Accept: text/x"},
			lines("GET / HTTP/1.1", "x: 1", "accept: text/x", "host: ADDR")},
		{"body", "/", "POST", "hello", []string{"X-A: 1"},
			lines("POST / HTTP/1.1", "x-a: 1", "accept: */*", "host: ADDR", "content-length: 5") + "hello"},
		{"body of a GET", "/", "GET", "hello", nil,
			lines("GET / HTTP/1.1", "accept: */*", "host: ADDR", "content-length: 5") + "hello"},
		{"no body", "/", "POST", "", nil, lines("POST / HTTP/1.1", "accept: */*", "host: ADDR", "content-length: 0")},
		{"no body and a length", "/", "PUT", "", []string{"Content-Length: 5"}, lines("PUT / HTTP/1.1", "accept: */*", "host: ADDR", "content-length: 0")},
		{"given shorter length", "/", "POST", "hello", []string{"Content-Length: 3"},
			lines("POST / HTTP/1.1", "content-length: 3", "accept: */*", "host: ADDR") + "hel"},
		{"given bad length", "/", "POST", "hello", []string{"Content-Length: x"},
			lines("POST / HTTP/1.1", "content-length: 5", "accept: */*", "host: ADDR") + "hello"},
		{"given chunked", "/", "POST", "hello", []string{"Transfer-Encoding: Chunked", "Content-Length: 5"},
			lines("POST / HTTP/1.1", "transfer-encoding: chunked", "host: ADDR", "accept: */*")},
		{"given chunked without body", "/", "POST", "", []string{"Transfer-Encoding: chunked"},
			lines("POST / HTTP/1.1", "host: ADDR", "accept: */*", "content-length: 0")},
		{"odd method", "/", "!#$%&'*+-.^_`|~aZ9", "", nil, lines("!#$%&'*+-.^_`|~aZ9 / HTTP/1.1", "accept: */*", "host: ADDR")},
		{"long method", "/", long, "", nil, lines(long+" / HTTP/1.1", "accept: */*", "host: ADDR")},
		{"odd values", "/", "GET", "", []string{"A: a\tb", "B:  pad ", "C: é", "D: "},
			lines("GET / HTTP/1.1", "a: a\tb", "b: pad", "c: é", "d: ", "accept: */*", "host: ADDR")},
		{"userinfo", "us%40er:pa%3Ass@/x", "GET", "", []string{"A: 1"},
			lines("GET /x HTTP/1.1", "authorization: Basic "+login("us@er:pa:ss"), "a: 1", "accept: */*", "host: ADDR")},
		{"userinfo without password", "user@/x", "GET", "", nil,
			lines("GET /x HTTP/1.1", "authorization: Basic "+login("user:"), "accept: */*", "host: ADDR")},
		{"userinfo without user", ":pw@/x", "GET", "", nil,
			lines("GET /x HTTP/1.1", "authorization: Basic "+login(":pw"), "accept: */*", "host: ADDR")},
		{"userinfo and authorization", "u:p@/", "GET", "", []string{"A: 1", "Authorization: x", "B: 2", "Authorization: y"},
			lines("GET / HTTP/1.1", "authorization: x", "authorization: y", "a: 1", "b: 2", "accept: */*", "host: ADDR")},
		{"connection close", "/", "GET", "", []string{"Connection: close"}, lines("GET / HTTP/1.1", "connection: close", "accept: */*", "host: ADDR")},
		{"agent and encoding", "/", "GET", "", []string{"User-Agent: me", "Accept-Encoding: gzip"},
			lines("GET / HTTP/1.1", "user-agent: me", "accept-encoding: gzip", "accept: */*", "host: ADDR")},
		{"expect", "/", "POST", "hello", []string{"Expect: 100-continue"},
			lines("POST / HTTP/1.1", "expect: 100-continue", "accept: */*", "host: ADDR", "content-length: 5") + "hello"},
		{"bytes of the path", "/%zz|^[]'{?a|b", "GET", "", nil, lines("GET /%zz|^[]'%7B?a|b HTTP/1.1", "accept: */*", "host: ADDR")},
		{"empty query", "/x?", "GET", "", nil, lines("GET /x? HTTP/1.1", "accept: */*", "host: ADDR")},
		{"two slashes", "//a/%2f", "GET", "", nil, lines("GET //a/%2f HTTP/1.1", "accept: */*", "host: ADDR")},
		{"CONNECT", "/", "CONNECT", "", nil, lines("CONNECT ADDR HTTP/1.1", "accept: */*", "host: ADDR")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := answering(t, ok)
			url := "http://" + s.address + test.url
			if login, path, found := strings.Cut(test.url, "@"); found {
				url = "http://" + login + "@" + s.address + path
			}
			mustFetch(t, client(t), with(get(url), test.method, test.body, test.headers...))
			if got := s.requests(); len(got) != 1 || got[0] != test.want {
				t.Errorf("sent %q\nwant %q", got, test.want)
			}
		})
	}
}

// If the body does not match its headers, the request is not sent.
func TestRequestBodyAndItsHeaders(t *testing.T) {
	s := answering(t, ok)
	for _, header := range []string{"Content-Length: 9", "Transfer-Encoding: gzip", "Transfer-Encoding: gzip, chunked"} {
		_, err := fetch(client(t), with(get("http://"+s.address), "POST", "hello", header))
		wantError(t, err, wire.CodeInternal, "http/request failed: error sending request for url (http://"+s.address+"/)")
	}
	if got := s.requests(); len(got) != 0 {
		t.Errorf("sent %q", got)
	}
}

func TestRefusedParameters(t *testing.T) {
	const url = "http://127.0.0.1:1/"
	tests := []struct {
		p    *wire.HTTPRequestParams
		want string
	}{
		{with(get(url), "G T", ""), "method is invalid: invalid HTTP method"},
		{with(get(url), "", ""), "method is invalid: invalid HTTP method"},
		{with(get("nope"), "G T", "", "a b: c"), "method is invalid: invalid HTTP method"},
		{with(get("ftp://x"), "GET", "", "a b: c"), "only supports http and https URLs, got ftp"},
		{get(""), "url is invalid: relative URL without a base"},
		{get("//h/x"), "url is invalid: relative URL without a base"},
		{get("1http://x"), "url is invalid: relative URL without a base"},
		{get("mailto:x@y"), "only supports http and https URLs, got mailto"},
		{get("http://"), "url is invalid: empty host"},
		{get("http://user@/x"), "url is invalid: empty host"},
		{get("http://127.0.0.1:99999/"), "url is invalid: invalid port number"},
		{get("http://127.0.0.1:x/"), "url is invalid: invalid port number"},
		{get("http://[::1"), "url is invalid: invalid IPv6 address"},
		{get("http://[::1%25lo]:1/"), "url is invalid: invalid IPv6 address"},
		{get("http://256.1.1.1/"), "url is invalid: invalid IPv4 address"},
		{get("http://a b/"), "url is invalid: invalid international domain name"},
		{get("http://ü b/"), "url is invalid: invalid international domain name"},
		{get("http://%0d%0ax/"), "url is invalid: invalid international domain name"},
		{get("http://exa<mple/"), "url is invalid: invalid international domain name"},
		{with(get(url), "GET", "", ": x"), "header name is invalid: invalid HTTP header name"},
		{with(get(url), "GET", "", "a b: x"), "header name is invalid: invalid HTTP header name"},
		{with(get(url), "GET", "", "X-é: x"), "header name is invalid: invalid HTTP header name"},
		{with(get(url), "GET", "", strings.Repeat("x", 70000)+": x"), "header name is invalid: invalid HTTP header name"},
		{with(get(url), "GET", "", "X-A: a\nb"), "header value is invalid for X-A: failed to parse header value"},
		{with(get(url), "GET", "", "X-A: a\rb"), "header value is invalid for X-A: failed to parse header value"},
		{with(get(url), "GET", "", "X-A: a\x7fb"), "header value is invalid for X-A: failed to parse header value"},
		{with(get(url), "GET", "", "X-A: \x00"), "header value is invalid for X-A: failed to parse header value"},
	}
	c := client(t)
	for _, test := range tests {
		_, err := fetch(c, test.p)
		wantError(t, err, wire.CodeInvalidParams, "http/request "+test.want)
	}
}

func TestHeaderVariables(t *testing.T) {
	c := client(t, "TOKEN=bar", "TOKEN=second", "EMPTY=", "BAD=a\nb", "BYTES=\xff", "openai_api_key=x")
	header := func(variable string) *wire.HTTPRequestParams {
		p := get("http://127.0.0.1:1/")
		p.Headers = []wire.HTTPHeader{{Name: "X-H", Value: "pre ", ValueEnvVar: &variable}}
		return p
	}
	s := answering(t, ok)
	p := header("TOKEN")
	p.URL = "http://" + s.address
	mustFetch(t, c, p)
	if want := lines("GET / HTTP/1.1", "x-h: pre bar", "accept: */*", "host: ADDR"); !slices.Equal(s.requests(), []string{want}) {
		t.Errorf("sent %q", s.requests())
	}
	tests := map[string]string{
		"NOPE":  "header X-H requires executor environment variable NOPE",
		"":      "header X-H requires executor environment variable ",
		"BYTES": "header X-H requires executor environment variable BYTES",
		"EMPTY": "header X-H requires a non-empty executor environment variable EMPTY",
		"BAD":   "header value is invalid for X-H: failed to parse header value",
	}
	for _, secret := range append(secretVariables, "openai_api_key", "Aws_Session_Token") {
		tests[secret] = "header X-H cannot use executor environment variable " + secret
	}
	for variable, want := range tests {
		_, err := fetch(c, header(variable))
		wantError(t, err, wire.CodeInvalidParams, "http/request "+want)
	}
}

func TestRedirectedRequests(t *testing.T) {
	all := []string{"Content-Type: t", "X-A: 1", "Content-Encoding: q", "Authorization: a", "Cookie: c=d",
		"Proxy-Authorization: p", "WWW-Authenticate: w", "Cookie2: z", "Content-Language: de", "Content-MD5: m",
		"Referer: http://mine/", "Host: given.example", "Transfer-X: q"}
	tests := []struct {
		name, method string
		status       string
		cross        bool
		want         string // names of the second request
	}{
		{"303", "POST", "303", false, "GET accept authorization content-language content-md5 cookie cookie2 host proxy-authorization referer transfer-x www-authenticate x-a"},
		{"301", "POST", "301", false, "GET accept authorization content-language content-md5 cookie cookie2 host proxy-authorization referer transfer-x www-authenticate x-a"},
		{"307", "POST", "307", false, "POST accept authorization content-encoding content-language content-length content-md5 content-type cookie cookie2 host proxy-authorization referer transfer-x www-authenticate x-a hello"},
		{"308", "POST", "308", false, "POST accept authorization content-encoding content-language content-length content-md5 content-type cookie cookie2 host proxy-authorization referer transfer-x www-authenticate x-a hello"},
		{"other host 307", "POST", "307", true, "POST accept content-encoding content-language content-length content-md5 content-type host referer transfer-x x-a hello"},
		{"other host 302", "POST", "302", true, "GET accept content-language content-md5 host referer transfer-x x-a"},
		{"302 of PUT", "PUT", "302", true, "PUT accept content-encoding content-language content-length content-md5 content-type host referer transfer-x x-a hello"},
		{"302 of post", "post", "302", true, "post accept content-encoding content-language content-length content-md5 content-type host referer transfer-x x-a hello"},
		{"303 of HEAD", "HEAD", "303", true, "HEAD accept content-encoding content-language content-length content-md5 content-type host referer transfer-x x-a hello"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			second := answering(t, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
			first := serve(t, func(c net.Conn, r string) bool {
				location := "/b"
				if test.cross {
					location = "http://" + second.address + "/b"
				}
				answer := "HTTP/1.1 " + test.status + " X\r\nlocation: " + location + "\r\ncontent-length: 0\r\n\r\n"
				if strings.Contains(r, " /b ") {
					answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
				}
				c.Write([]byte(answer))
				return true
			})
			mustFetch(t, client(t), with(get("http://"+first.address+"/a#x"), test.method, "hello", all...))
			got := append(first.requests(), second.requests()...)
			if len(got) != 2 {
				t.Fatalf("sent %q", got)
			}
			if names := outline(got[1]); names != test.want {
				t.Errorf("sent %q\nwant %q", names, test.want)
			}
			if referer := "referer: http://" + map[bool]string{true: first.address, false: "ADDR"}[test.cross] + "/a\r\n"; !strings.Contains(got[1], referer) {
				t.Errorf("sent %q\nwithout %q", got[1], referer)
			}
		})
	}
}

// outline returns a request's method, header names and body.
func outline(request string) string {
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	parts := strings.Split(head, "\r\n")
	out, _, _ := strings.Cut(parts[0], " ")
	for _, line := range parts[1:] {
		name, _, _ := strings.Cut(line, ":")
		out += " " + name
	}
	return strings.TrimSpace(out + " " + body)
}
