//go:build interop

package interop_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/tethertest"
)

const upgradeHeaders = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

var httpExchanges = []exchange{
	{name: "http/surface", compares: wholeReplies, play: func(p *player) {
		for _, row := range [][2]string{
			{"GET /readyz", ""}, {"HEAD /readyz", ""}, {"POST /readyz", ""}, {"GET /readyz?x=1", ""}, {"GET /readyz/", ""},
			{"GET /healthz", ""}, {"GET /other", ""}, {"GET /other", upgradeHeaders}, {"GET /", ""}, {"POST /", ""},
			{"HEAD /", ""}, {"DELETE /", upgradeHeaders}, {"GET /", "Origin: http://x\r\n"}, {"GET /", "Origin:\r\n"},
			{"GET /readyz", "Origin: null\r\n"}, {"GET /nope", "Origin: http://127.0.0.1\r\n"},
			{"GET /", "Origin: http://x\r\n" + upgradeHeaders},
			{"GET /", strings.Replace(upgradeHeaders, "Connection: Upgrade", "Connection: keep-alive", 1)},
			{"GET /", strings.Replace(upgradeHeaders, "Upgrade: websocket", "Upgrade: h2c", 1)},
			{"GET /", strings.Replace(upgradeHeaders, "Version: 13", "Version: 12", 1)},
			{"GET /", strings.Replace(upgradeHeaders, "Sec-WebSocket-Version: 13\r\n", "", 1)},
			{"GET /", strings.Replace(upgradeHeaders, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "", 1)},
			{"GET /", upgradeHeaders}, {"GET /?query=1", upgradeHeaders},
			{"GET /", strings.ReplaceAll(strings.ReplaceAll(upgradeHeaders, "Upgrade\r\n", "keep-alive, upgrade\r\n"), "websocket\r\n", "WebSocket\r\n")},
			{"GET /", upgradeHeaders + "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"},
			{"GET /", upgradeHeaders + "Authorization: Bearer nonsense\r\n"},
		} {
			p.http(row[0], row[1])
		}
	}, differs: []difference{{"GET /healthz ", "it is a health check of ours as well", `{"body":"","status":200}`}}},
	{name: "http/ping", compares: wholeReplies, play: func(p *player) {
		c := p.open()
		c.frame(0x80|tethertest.OpPing, true, "payload")
		c.alive("after a ping")
	}},
}

// http sends one raw request and records the answer.
func (p *player) http(line, headers string) {
	p.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.server.url, "ws://"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(timeLimit))
	fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: anything.example\r\n%s\r\n", line, headers)
	method, _, _ := strings.Cut(line, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		p.note(line+" "+headers, err.Error())
		return
	}
	body := ""
	if resp.StatusCode != http.StatusSwitchingProtocols {
		b, _ := io.ReadAll(resp.Body)
		body = string(b)
	}
	seen := map[string]any{"status": resp.StatusCode, "body": body}
	for _, h := range []string{"Allow", "Content-Type", "Sec-Websocket-Accept", "Sec-Websocket-Protocol", "Sec-Websocket-Extensions"} {
		if v := resp.Header.Get(h); v != "" {
			seen[h] = v
		}
	}
	p.note(line+" "+strings.ReplaceAll(headers, "\r\n", "; "), seen)
}

// upgradeWith records whether an upgrade with these Authorization headers succeeds.
func (p *player) upgradeWith(label string, authorization ...string) {
	var header []string
	for _, a := range authorization {
		header = append(header, "Authorization", a)
	}
	c, err := p.tryDial(header...)
	if refused, ok := errors.AsType[*tethertest.UpgradeError](err); ok {
		p.note(label, fmt.Sprintf("%d %s %q", refused.Status, refused.Header.Get("Content-Type"), refused.Body))
		return
	}
	if err != nil {
		p.note(label, err.Error())
		return
	}
	p.note(label, "upgraded")
	c.Close()
}

const (
	capability = "correct horse battery staple"
	jwtSecret  = "a secret of at least thirty-two bytes, trimmed"
)

func capabilityDigest() string {
	sum := sha256.Sum256([]byte(capability))
	return hex.EncodeToString(sum[:])
}

var authExchanges = []exchange{
	{name: "auth/capability token", compares: wholeReplies,
		flags: []string{"--ws-auth", "capability-token", "--ws-token-sha256", strings.ToUpper(capabilityDigest())}, play: playCapability},
	{name: "auth/capability token file", compares: wholeReplies,
		flags: []string{"--ws-auth", "capability-token", "--ws-token-file", "token"}, play: playCapability},
	{name: "auth/signed token", compares: wholeReplies, flags: []string{"--ws-auth", "signed-bearer-token", "--ws-shared-secret-file",
		"secret", "--ws-issuer", " me ", "--ws-audience", "you", "--ws-max-clock-skew-seconds", "60"}, play: playSigned},
	{name: "auth/signed token, defaults", compares: wholeReplies, flags: []string{"--ws-auth", "signed-bearer-token",
		"--ws-shared-secret-file", "secret"}, play: func(p *player) {
		now := time.Now().Unix()
		p.upgradeWith("no issuer wanted", "Bearer "+jwt("HS256", jwtSecret, fmt.Sprintf(`{"exp":%d,"iss":"x","aud":["y"]}`, now+60)))
		p.upgradeWith("within the default skew", "Bearer "+jwt("HS256", jwtSecret, fmt.Sprintf(`{"exp":%d}`, now-20)))
		p.upgradeWith("beyond the default skew", "Bearer "+jwt("HS256", jwtSecret, fmt.Sprintf(`{"exp":%d}`, now-40)))
	}},
}

func playCapability(p *player) {
	p.upgradeWith("none")
	p.upgradeWith("right", "Bearer "+capability)
	p.upgradeWith("scheme in lower case", "bearer "+capability)
	p.upgradeWith("spaces around", "Bearer   "+capability+"  ")
	p.upgradeWith("wrong", "Bearer nonsense")
	p.upgradeWith("other scheme", "Basic "+capability)
	p.upgradeWith("no scheme", capability[:7])
	p.upgradeWith("empty token", "Bearer ")
	p.upgradeWith("only the scheme", "Bearer")
	p.upgradeWith("not ASCII", "Bearer \xe4")
	p.upgradeWith("first header counts", "Bearer nonsense", "Bearer "+capability)
	p.upgradeWith("first header counts, right one", "Bearer "+capability, "Bearer nonsense")
	p.http("GET /readyz", "")
	p.http("GET /", "")
	p.http("GET /", "Origin: http://x\r\nAuthorization: Bearer "+capability+"\r\n"+upgradeHeaders)
	p.http("GET /other", "Authorization: Bearer "+capability+"\r\n")
}

func playSigned(p *player) {
	now := time.Now().Unix()
	claims := func(format string, args ...any) string {
		return "Bearer " + jwt("HS256", jwtSecret, fmt.Sprintf(format, args...))
	}
	p.upgradeWith("none")
	p.upgradeWith("good", claims(`{"exp":%d,"iss":"me","aud":"you"}`, now+600))
	p.upgradeWith("audience list", claims(`{"exp":%d,"iss":"me","aud":["x","you"]}`, now+600))
	p.upgradeWith("not before, now", claims(`{"exp":%d,"nbf":%d,"iat":"junk","iss":"me","aud":"you"}`, now+600, now))
	p.upgradeWith("not before, within skew", claims(`{"exp":%d,"nbf":%d,"iss":"me","aud":"you"}`, now+600, now+30))
	p.upgradeWith("not before, later", claims(`{"exp":%d,"nbf":%d,"iss":"me","aud":"you"}`, now+600, now+300))
	p.upgradeWith("expired", claims(`{"exp":%d,"iss":"me","aud":"you"}`, now-300))
	p.upgradeWith("expired within skew", claims(`{"exp":%d,"iss":"me","aud":"you"}`, now-30))
	p.upgradeWith("no exp", claims(`{"iss":"me","aud":"you"}`))
	p.upgradeWith("exp is a float", claims(`{"exp":%d.5,"iss":"me","aud":"you"}`, now+600))
	p.upgradeWith("exp is a string", claims(`{"exp":"%d","iss":"me","aud":"you"}`, now+600))
	p.upgradeWith("issuer", claims(`{"exp":%d,"iss":"other","aud":"you"}`, now+600))
	p.upgradeWith("no issuer", claims(`{"exp":%d,"aud":"you"}`, now+600))
	p.upgradeWith("audience", claims(`{"exp":%d,"iss":"me","aud":"other"}`, now+600))
	p.upgradeWith("no audience", claims(`{"exp":%d,"iss":"me"}`, now+600))
	p.upgradeWith("audience list without it", claims(`{"exp":%d,"iss":"me","aud":["a","b"]}`, now+600))
	good := fmt.Sprintf(`{"exp":%d,"iss":"me","aud":"you"}`, now+600)
	p.upgradeWith("other key", "Bearer "+jwt("HS256", "another secret of thirty-two bytes and more", good))
	p.upgradeWith("HS512", "Bearer "+jwt("HS512", jwtSecret, good))
	p.upgradeWith("none algorithm", "Bearer "+jwt("none", jwtSecret, good))
	p.upgradeWith("two parts", "Bearer a.b")
	p.upgradeWith("junk", "Bearer junk")
	p.upgradeWith("scheme", "Token junk")
	p.upgradeWith("expired and wrong issuer", claims(`{"exp":%d,"iss":"other","aud":"you"}`, now-300))
	p.upgradeWith("wrong issuer and audience", claims(`{"exp":%d,"iss":"other","aud":"other"}`, now+300))
	p.http("GET /readyz", "")
}

// jwt makes a compact token; alg none has an empty signature.
func jwt(alg, secret, claims string) string {
	enc := base64.RawURLEncoding
	signed := enc.EncodeToString([]byte(`{"alg":"`+alg+`","typ":"JWT"}`)) + "." + enc.EncodeToString([]byte(claims))
	var h func() hash.Hash
	switch alg {
	case "HS256":
		h = sha256.New
	case "HS512":
		h = sha512.New
	default:
		return signed + "."
	}
	mac := hmac.New(h, []byte(secret))
	mac.Write([]byte(signed))
	return signed + "." + enc.EncodeToString(mac.Sum(nil))
}
