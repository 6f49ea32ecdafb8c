package netproxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// maxConnectAnswer is how many bytes an upstream proxy may take to answer a CONNECT.
const maxConnectAnswer = 16 << 10

// upstreams are the proxies that an environment names.
type upstreams struct {
	plain  *url.URL // for HTTP
	tunnel *url.URL // for CONNECT
	except []string // hosts to reach directly: NO_PROXY
}

// upstreamsOf finds the proxies in an environment. Upper case wins over lower case, and
// what is not a URL of an HTTP proxy counts as absent.
func upstreamsOf(env []string) upstreams {
	http, https, all := proxyIn(env, "HTTP_PROXY"), proxyIn(env, "HTTPS_PROXY"), proxyIn(env, "ALL_PROXY")
	var u upstreams
	for _, p := range []*url.URL{all, http} {
		if p != nil {
			u.plain, u.tunnel = p, p
		}
	}
	if https != nil {
		u.tunnel = https
	}
	except := lookup(env, "NO_PROXY")
	if except == "" {
		except = lookup(env, "no_proxy")
	}
	for e := range strings.SplitSeq(except, ",") {
		if e = strings.ToLower(strings.TrimSpace(e)); e != "" {
			u.except = append(u.except, e)
		}
	}
	return u
}

func proxyIn(env []string, name string) *url.URL {
	for _, n := range []string{name, strings.ToLower(name)} {
		v := lookup(env, n)
		if v != "" && !strings.Contains(v, "://") {
			v = "http://" + v
		}
		if u, err := url.Parse(v); err == nil && u.Hostname() != "" && (u.Scheme == "http" || u.Scheme == "https") {
			return u
		}
	}
	return nil
}

// lookup returns the last value of a variable.
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if n, v, ok := strings.Cut(env[i], "="); ok && n == name {
			return v
		}
	}
	return ""
}

// find returns the proxy to go through for q, or nil. What is on this machine or in its
// network is reached directly, and so is what SOCKS5 clients want.
func (u upstreams) find(q netpolicy.Query) *url.URL {
	var up *url.URL
	switch q.Protocol {
	case netpolicy.HTTP:
		up = u.plain
	case netpolicy.Connect:
		up = u.tunnel
	}
	if up == nil || isLocal(q.Host) || u.excepts(q.Host, q.Port) {
		return nil
	}
	return up
}

func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost" || strings.HasSuffix(host, ".localhost")
	}
	a = a.Unmap()
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsUnspecified()
}

// excepts reports whether NO_PROXY names a host: "*", a name (with all below it), an
// address or a range of addresses, each with or without a port.
func (u upstreams) excepts(host string, port uint16) bool {
	address, notAddress := netip.ParseAddr(host)
	for _, e := range u.except {
		if h, p, err := net.SplitHostPort(e); err == nil {
			if p != strconv.Itoa(int(port)) {
				continue
			}
			e = h
		}
		if e == "*" {
			return true
		}
		if notAddress != nil {
			name := strings.TrimPrefix(strings.TrimPrefix(e, "*"), ".")
			if host == name || name != "" && strings.HasSuffix(host, "."+name) {
				return true
			}
			continue
		}
		if a, err := netip.ParseAddr(strings.Trim(e, "[]")); err == nil && a.Unmap() == address.Unmap() {
			return true
		}
		if r, err := netip.ParsePrefix(e); err == nil && r.Contains(address.Unmap()) {
			return true
		}
	}
	return false
}

// connectUpstream connects to an upstream proxy. Whoever set it up vouches for its
// address: no rules apply.
func (p *Proxy) connectUpstream(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	stop := context.AfterFunc(p.ctx, cancel)
	defer stop()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return p.track(c, nil)
}

// dialUpstream opens a tunnel through an upstream proxy.
func (p *Proxy) dialUpstream(ctx context.Context, up *url.URL, q netpolicy.Query) (net.Conn, error) {
	port := up.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[up.Scheme]
	}
	tcp, err := p.connectUpstream(ctx, net.JoinHostPort(up.Hostname(), port))
	if err != nil {
		return nil, err
	}
	c := tcp
	if up.Scheme == "https" {
		c = tls.Client(tcp, &tls.Config{ServerName: up.Hostname()})
	}
	stop := context.AfterFunc(ctx, func() { bare(tcp).Close() })
	c.SetDeadline(time.Now().Add(dialTimeout))
	if err := openTunnel(c, up, q); err != nil {
		stop()
		c.Close()
		return nil, err
	}
	if !stop() {
		c.Close()
		return nil, context.Cause(ctx)
	}
	c.SetDeadline(time.Time{})
	return c, nil
}

// openTunnel asks the proxy at the other end of c to connect it with what q names.
func openTunnel(c net.Conn, up *url.URL, q netpolicy.Query) error {
	target := net.JoinHostPort(q.Host, strconv.Itoa(int(q.Port)))
	head := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if up.User != nil {
		password, _ := up.User.Password()
		credentials := base64.StdEncoding.EncodeToString([]byte(up.User.Username() + ":" + password))
		head += "Proxy-Authorization: Basic " + credentials + "\r\n"
	}
	if _, err := c.Write([]byte(head + "\r\n")); err != nil {
		return err
	}
	answer, err := readHead(c)
	if err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("upstream proxy: %w", err)
	}
	r.Body.Close()
	if r.StatusCode/100 != 2 {
		return fmt.Errorf("upstream proxy: status %d", r.StatusCode)
	}
	return nil
}

// readHead reads up to the end of a header and not a byte further: what follows belongs
// to the tunnel.
func readHead(c net.Conn) ([]byte, error) {
	var head []byte
	var one [1]byte
	for len(head) < maxConnectAnswer {
		if _, err := c.Read(one[:]); err != nil {
			return nil, err
		}
		head = append(head, one[0])
		if bytes.HasSuffix(head, []byte("\r\n\r\n")) {
			return head, nil
		}
	}
	return nil, errors.New("upstream proxy: the answer to CONNECT does not end")
}
