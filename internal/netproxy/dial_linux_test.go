package netproxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Nothing is dialled for a request that is over: http.Transport would continue,
// and a process that hangs up again and again could cause any number of
// connections.
func TestDialEndsWithRequest(t *testing.T) {
	p := New(Config{})
	defer p.Close()
	began, ended := make(chan struct{}), make(chan error, 1)
	dial := p.transport.DialContext
	p.transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		close(began)
		c, err := dial(ctx, network, address)
		ended <- err
		return c, err
	}
	request, cancel := context.WithCancel(t.Context())
	defer cancel()
	to := requestRoute{route{addresses: []netip.AddrPort{fullQueue(t)}}, request}
	r, err := http.NewRequestWithContext(context.WithValue(request, routeKey{}, to), http.MethodGet, "http://x.example/", nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-began
		cancel()
	}()
	if _, err := p.transport.RoundTrip(r); err == nil {
		t.Error("there is a response")
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "operation was canceled") {
		t.Errorf("the dial ended with %v", err)
	}
}

// fullQueue returns an address that does not respond: there is a listener, but it
// accepts no connection, and its queue is full.
func fullQueue(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	loopback := [4]byte{127, 0, 0, 1}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: loopback}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := netip.AddrPortFrom(netip.AddrFrom4(loopback), uint16(name.(*syscall.SockaddrInet4).Port))
	c, err := net.Dial("tcp", address.String()) // backlog 0 means one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for deadline := time.Now().Add(testTime); ; runtime.Gosched() { // the kernel may be late to count the waiting connections
		info, err := unix.GetsockoptTCPInfo(fd, syscall.IPPROTO_TCP, syscall.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		if info.Unacked > info.Sacked { // for a listener: waiting connections, and the backlog
			return address
		}
		if time.Now().After(deadline) {
			t.Fatal("the queue does not fill up")
		}
	}
}
