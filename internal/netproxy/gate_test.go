package netproxy

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// preparedProxy accepts one connection, returns everything that it receives and
// responds with "answer".
func preparedProxy(t *testing.T) (address string, heard chan string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard = make(chan string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		all, _ := io.ReadAll(c) // until the other side closes its direction
		heard <- string(all)
		io.WriteString(c, "answer")
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String(), heard
}

func insideListener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// say sends text, closes its direction, and returns the response.
func say(t *testing.T, to net.Addr, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(testTime))
	io.WriteString(c, text)
	c.(*net.TCPConn).CloseWrite()
	var back bytes.Buffer
	io.Copy(&back, c) // a reset is an empty response
	return back.String()
}

func TestGateToPreparedProxies(t *testing.T) {
	first, heardFirst := preparedProxy(t)
	second, heardSecond := preparedProxy(t)
	_, e, err := FindEndpoints([]string{"HTTP_PROXY=http://" + first, "ALL_PROXY=socks5://" + second, attributionVariable + "=me"})
	if err != nil {
		t.Fatal(err)
	}
	gate, err := NewGate(e, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	listeners := []net.Listener{insideListener(t), insideListener(t)}
	gate.Serve(listeners)
	for i, heard := range []chan string{heardFirst, heardSecond} {
		if got := say(t, listeners[i].Addr(), "question"); got != "answer" {
			t.Errorf("listener %d answers %q", i, got)
		}
		if got := <-heard; got != "\x00CDXPXY1\x00\x02mequestion" {
			t.Errorf("proxy %d heard %q", i, got)
		}
	}
}

// If the proxy cannot be reached, the connection is closed.
func TestGateToDeadProxy(t *testing.T) {
	address := fmt.Sprintf("127.0.0.1:%d", closedPort(t))
	_, e, err := FindEndpoints([]string{"HTTP_PROXY=http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	gate, err := NewGate(e, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	l := insideListener(t)
	gate.Serve([]net.Listener{l})
	if got := say(t, l.Addr(), "question"); got != "" {
		t.Errorf("a dead proxy answers %q", got)
	}
}

// Close ends the connections of a gate, and later ones are refused.
func TestGateCloses(t *testing.T) {
	address, _ := preparedProxy(t)
	_, e, err := FindEndpoints([]string{"HTTP_PROXY=http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	gate, err := NewGate(e, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := insideListener(t)
	gate.Serve([]net.Listener{l})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "question")
	gate.Close()
	c.SetReadDeadline(time.Now().Add(testTime))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	late := insideListener(t)
	gate.Serve([]net.Listener{late})
	if c, err := net.Dial("tcp", late.Addr().String()); err == nil {
		c.Close()
		t.Error("a closed gate serves")
	}
}

// A gate to the address of this program is refused before anything is dialled.
func TestGateToThisProgram(t *testing.T) {
	_, e, err := FindEndpoints([]string{"HTTP_PROXY=http://127.0.0.1:1001", "ALL_PROXY=socks5://[::1]:1002"})
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range e.Addresses {
		_, err := NewGate(e, func(a netip.AddrPort) bool { return a == own }, nil)
		if err == nil || !strings.Contains(err.Error(), own.String()) {
			t.Errorf("gate to %s: %v", own, err)
		}
	}
}
