package host

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// proxyThat listens on loopback and hands its only connection to talk. It returns the proxy for a scheme and login.
func proxyThat(t *testing.T, scheme string, talk func(net.Conn)) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // ends with the connection, or with the listener
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(30 * time.Second))
		talk(c)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return ProxiesOf([]string{"ALL_PROXY=" + scheme + l.Addr().String()}, quiet).All
}

// readLines reads up to an empty line.
func readLines(r *bufio.Reader) (all string) {
	for {
		line, err := r.ReadString('\n')
		all += line
		if err != nil || line == "\r\n" {
			return all
		}
	}
}

func TestConnect(t *testing.T) {
	asked := make(chan string, 1)
	p := proxyThat(t, "http://us:pw@", func(c net.Conn) {
		r := bufio.NewReader(c)
		asked <- readLines(r)
		io.WriteString(c, "HTTP/1.1 200 Connected\r\nX: y\r\n\r\nwelcome") // the host may speak first
		io.Copy(c, r)
	})
	c, err := Dialer{}.Tunnel(t.Context(), p, "a.example:443")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, want := <-asked, "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nProxy-Authorization: Basic dXM6cHc=\r\n\r\n"; got != want {
		t.Errorf("the proxy got %q, want %q", got, want)
	}
	io.WriteString(c, " back")
	got := make([]byte, len("welcome back"))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "welcome back" {
		t.Errorf("through the tunnel came %q, %v", got, err)
	}
}

func TestConnectRefused(t *testing.T) {
	for name, answer := range map[string]string{
		"status":  "HTTP/1.1 407 No\r\n\r\n",
		"garbage": "SSH-2.0-x\r\n\r\n",
		"cut":     "HTTP/1.1 200 OK\r\n",
		"endless": strings.Repeat("x", 2*maxConnectHead),
	} {
		t.Run(name, func(t *testing.T) {
			p := proxyThat(t, "http://", func(c net.Conn) {
				readLines(bufio.NewReader(c))
				io.WriteString(c, answer)
			})
			if c, err := (Dialer{}).Tunnel(t.Context(), p, "a.example:443"); err == nil {
				c.Close()
				t.Error("there is a tunnel")
			}
		})
	}
}

// If a proxy does not answer, Tunnel returns when the context ends, and closes the connection.
func TestTunnelEndsWithContext(t *testing.T) {
	for _, scheme := range []string{"http://", "https://", "socks5://"} {
		t.Run(scheme, func(t *testing.T) {
			gone := make(chan struct{})
			asked := make(chan struct{})
			p := proxyThat(t, scheme, func(c net.Conn) {
				c.Read(make([]byte, 1))
				close(asked)
				io.Copy(io.Discard, c)
				close(gone)
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-asked; cancel() }() // ends with the proxy's connection
			if c, err := (Dialer{}).Tunnel(ctx, p, "a.example:443"); err == nil {
				c.Close()
				t.Error("there is a tunnel")
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("the reason is %v", err)
			}
			<-gone
		})
	}
}

// lateContext is a context whose functions for its end have not run yet.
type lateContext struct{ context.Context }

func (lateContext) AfterFunc(func()) func() bool { return func() bool { return true } }
func (lateContext) Value(any) any                { return nil } // or package context would find the one inside

// The SOCKS library watches the context, too. If it notices the end first, the reason is the same.
func TestTunnelEndsInTheLibrary(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := proxyThat(t, "socks5://", func(c net.Conn) {
		c.Read(make([]byte, 1))
		cancel()
		io.Copy(io.Discard, c)
	})
	if _, err := (Dialer{}).Tunnel(lateContext{ctx}, p, "a.example:443"); !errors.Is(err, context.Canceled) {
		t.Errorf("the reason is %v", err)
	}
}
