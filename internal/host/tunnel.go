package host

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"

	"golang.org/x/net/proxy"
)

// maxConnectHead is how many bytes the answer of a proxy to CONNECT may have.
const maxConnectHead = 16 << 10

// A Dialer opens connections through a proxy. The zero value works.
type Dialer struct {
	// Dial connects to the proxy; nil: a net.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// TLS, if set, has the certificates to trust for proxies that are reached by https. It is not changed.
	TLS *tls.Config
}

// Connect connects to the proxy itself, for requests in absolute form.
func (d Dialer) Connect(ctx context.Context, p *Proxy) (net.Conn, error) {
	dial := d.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	c, err := dial(ctx, "tcp", p.address)
	if err != nil || p.scheme != "https" {
		return c, err
	}
	config := &tls.Config{}
	if d.TLS != nil {
		config = d.TLS.Clone()
	}
	config.ServerName, config.NextProtos = p.hostname, []string{"http/1.1"}
	secure := tls.Client(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return secure, nil
}

// Tunnel returns a connection to address, a host and a port, through the proxy, which also resolves the name.
func (d Dialer) Tunnel(ctx context.Context, p *Proxy, address string) (net.Conn, error) {
	c, err := d.Connect(ctx, p)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	if p.scheme == "socks5" {
		err = p.socks(ctx, c, address)
	} else {
		err = p.connect(c, address)
	}
	if closed := !stop(); closed || err != nil && ctx.Err() != nil { // err is only a consequence; the SOCKS library watches ctx, too
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// socks asks a SOCKS5 proxy at the other end of c for a connection to address.
func (p *Proxy) socks(ctx context.Context, c net.Conn, address string) error {
	var login *proxy.Auth
	if p.user != nil {
		password, _ := p.user.Password()
		login = &proxy.Auth{User: p.user.Username(), Password: password}
	}
	dialer, err := proxy.SOCKS5("tcp", p.address, login, nil)
	if err != nil {
		return err
	}
	_, err = dialer.(interface {
		DialWithConn(ctx context.Context, c net.Conn, network, address string) (net.Addr, error)
	}).DialWithConn(ctx, c, "tcp", address)
	return err
}

// connect asks an HTTP proxy at the other end of c for a connection to address.
func (p *Proxy) connect(c net.Conn, address string) error {
	head := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if login := p.Authorization(); login != "" {
		head += "Proxy-Authorization: " + login + "\r\n"
	}
	if _, err := c.Write([]byte(head + "\r\n")); err != nil {
		return err
	}
	answer, err := readHead(c)
	if err != nil {
		return fmt.Errorf("read the answer of the proxy to CONNECT: %w", err)
	}
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("read the answer of the proxy to CONNECT: %w", err)
	}
	r.Body.Close()
	if r.StatusCode/100 != 2 {
		return fmt.Errorf("the proxy refuses the tunnel with status %d", r.StatusCode)
	}
	return nil
}

// readHead reads up to the end of a header and not a byte further: the bytes after it belong to the tunnel.
func readHead(c net.Conn) ([]byte, error) {
	var head []byte
	var one [1]byte
	for len(head) < maxConnectHead {
		if _, err := c.Read(one[:]); err != nil {
			return nil, err
		}
		head = append(head, one[0])
		if bytes.HasSuffix(head, []byte("\r\n\r\n")) || bytes.HasSuffix(head, []byte("\n\n")) {
			return head, nil
		}
	}
	return nil, errors.New("it is too long")
}
