package listen

import (
	"net"
	"syscall"
	"testing"
)

// The socket options are kept through all wrappers between listener and handler.
func TestSocketOptions(t *testing.T) {
	s := startUpgrader(t, Config{}, nil)
	if resp, _ := s.ask(t, "GET / HTTP/1.1\r\n"+upgradeHeaders+"\r\n"); resp.StatusCode != 101 {
		t.Fatal(resp.Status)
	}
	raw, err := (<-s.accepted).conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []struct {
		name              string
		level, opt, value int
	}{
		{"TCP_NODELAY", syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
		{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 60},
		{"TCP_KEEPINTVL", syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 60},
		{"TCP_KEEPCNT", syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 14},
	} {
		var got int
		var getErr error
		if err := raw.Control(func(fd uintptr) { got, getErr = syscall.GetsockoptInt(int(fd), option.level, option.opt) }); err != nil || getErr != nil {
			t.Fatal(option.name, err, getErr)
		}
		if got != option.value {
			t.Errorf("%s is %d, want %d", option.name, got, option.value)
		}
	}
}

func TestListenerIsPlainTCP(t *testing.T) {
	raw, err := open(t, Config{}).Listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const soProtocol = 38
	var got int
	var getErr error
	if err := raw.Control(func(fd uintptr) { got, getErr = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, soProtocol) }); err != nil || getErr != nil {
		t.Fatal(err, getErr)
	}
	if got != syscall.IPPROTO_TCP {
		t.Errorf("protocol %d", got)
	}
}
