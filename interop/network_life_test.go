//go:build interop

package interop_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNetworkLife compares how proxies end with their process, and what happens to questions when no client is connected. It compares
// the same as TestNetworkProxies.
func TestNetworkLife(t *testing.T) {
	t.Parallel()
	inNamespace(t, func(t *testing.T) {
		openWorld(t)
		for _, x := range []exchange{
			{name: "end", compares: proxyOutcome, play: func(p *player) {
				process := p.open().proxied("p", networkProxy(someDomains, ""))
				process.play(fetch("pub.example"))
				process.stop()
				p.note("HTTP afterwards", gone(process.http))
				p.note("SOCKS afterwards", gone(process.socks))
			}},
			{name: "detached", compares: proxyOutcome, play: func(p *player) {
				c := p.open()
				process := c.proxied("p", networkProxy(someDomains, asks))
				c.Close()
				for _, b := range all("pub.example", "other.example") {
					p.note(b.label, b.do(process))
				}
			}},
			{name: "detached meanwhile", compares: proxyOutcome, play: func(p *player) {
				c := p.open()
				process := c.proxied("p", networkProxy(someDomains, asks))
				c.decideBy(func(networkMessage) string { c.ws.Close(); return "" })
				b := timed(fetch("other.example"), 0, 9*time.Second) // a wait for an answer would take 10 s
				p.note(b.label, b.do(process))
			}},
			{name: "ended meanwhile", compares: proxyOutcome, play: func(p *player) {
				c := p.open()
				process := c.proxied("p", networkProxy(someDomains, asks))
				asked := make(chan struct{})
				c.decideBy(func(networkMessage) string { close(asked); return "" })
				answer := make(chan string)
				go func() { answer <- fetch("other.example").do(process) }() // ends with the proxy
				<-asked
				c.call("process/terminate", `{"processId":"p"}`)
				p.note("let through", strings.Contains(<-answer, "hello"))
			}},
		} {
			t.Run(x.name, func(t *testing.T) { x.run(t) })
		}
	})
}

// gone waits until nothing listens at an address. Connections that are made meanwhile are closed.
func gone(address string) string {
	for end := time.Now().Add(timeLimit); time.Now().Before(end); {
		c, err := net.DialTimeout("tcp", address, timeLimit)
		switch {
		case err == nil:
			c.Close()
		case !errors.Is(err, syscall.ECONNRESET):
			return describeFailure(err)
		}
	}
	return "still there"
}

// TestNetworkUpstream compares proxies whose server has to use another proxy. It compares the same as TestNetworkProxies; the
// upstream proxy answers with the first line that it gets.
func TestNetworkUpstream(t *testing.T) {
	t.Parallel()
	inNamespace(t, func(t *testing.T) {
		openWorld(t)
		openPrepared(t)
		for _, row := range []struct {
			name, settings string
			env            []string
			differs        []difference
		}{
			{"used", `"allowUpstreamProxy":true`, []string{"HTTP_PROXY=http://127.0.0.1:3128", "http_proxy=http://127.0.0.1:3128", "HTTPS_PROXY=http://127.0.0.1:3128", "https_proxy=http://127.0.0.1:3128"}, nil},
			{"not allowed", `"allowUpstreamProxy":false`, []string{"HTTP_PROXY=http://127.0.0.1:3128", "http_proxy=http://127.0.0.1:3128", "HTTPS_PROXY=http://127.0.0.1:3128"}, nil},
			{"all", `"allowUpstreamProxy":true`, []string{"ALL_PROXY=http://127.0.0.1:3128"}, nil},
			{"exceptions", `"allowUpstreamProxy":true`, []string{"HTTP_PROXY=http://127.0.0.1:3128", "http_proxy=http://127.0.0.1:3128", "NO_PROXY=pub.example", "no_proxy=pub.example"},
				instead("NO_PROXY of the server counts", fetch("pub.example"), reached("GET", "/", "pub.example", "11.0.0.1"), asTheirs)},
		} {
			t.Run(row.name, func(t *testing.T) {
				exchange{name: row.name, compares: proxyOutcome, differs: row.differs, play: func(p *player) {
					cmd := command(p.t, p.who, "--listen", "ws://127.0.0.1:0")
					cmd.Env = append(cmd.Env, row.env...)
					p.server = startCommand(p.t, p.who, cmd)
					defer p.server.stop()
					process := p.open().proxied("p", networkProxy(row.settings+`,"domains":{"pub.example":"allow","pub2.example":"allow","loop.example":"allow"}`, ""))
					for _, b := range []probe{fetch("pub.example"), fetch("pub2.example"), fetch("loop.example"), tunnel("pub2.example:443"), socks("pub2.example", webPort), fetch("other.example")} {
						process.play(b)
					}
					process.stop()
				}}.run(t)
			})
		}
	})
}
