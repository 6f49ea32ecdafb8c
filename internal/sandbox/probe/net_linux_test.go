package probe

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSockets(t *testing.T) {
	expect(t, "ok", "socket", "inet", "stream")
	expect(t, "ok", "socket", "inet", "dgram")
	expect(t, "ok", "socket", "netlink", "raw")
	expect(t, "ok", "socket", strconv.Itoa(unix.AF_UNIX), "dgram")
	expect(t, "ok", "socket-high", "unix", "stream")
	expect(t, "socket: EAFNOSUPPORT", "socket", "12345", "stream")
	expect(t, "socket-high: EAFNOSUPPORT", "socket-high", "12345", "stream")
	expect(t, "ok", "socketpair", "unix")
	expect(t, "socketpair: ENOTSUP", "socketpair", "inet")
}

func TestUnixPair(t *testing.T) {
	r := run(t, "unixpair")
	if r.code != exitOK || strings.Count(r.out, ": ok") != len(pairCalls) || strings.Count(r.out, "\n")+1 != len(pairCalls) {
		t.Errorf("exit %d, %q", r.code, r.out)
	}
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	expect(t, "ok", "connect-tcp", l.Addr().String())
	expect(t, "listen-tcp: EADDRINUSE bind", "listen-tcp", l.Addr().String())
	conn, err := l.Accept()
	if err != nil {
		t.Fatalf("no connection arrived: %v", err)
	}
	conn.Close()
	expect(t, "connect-tcp: ECONNREFUSED", "connect-tcp", unheard(t))
	expect(t, "ok", "listen-tcp", "127.0.0.1:0")
}

func TestUDP(t *testing.T) {
	l, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	expect(t, "ok", "send-udp", l.LocalAddr().String())
	receiveByte(t, l)
}

func receiveByte(t *testing.T, l net.PacketConn) {
	t.Helper()
	b := make([]byte, 8)
	if n, _, err := l.ReadFrom(b); err != nil || string(b[:n]) != "p" {
		t.Errorf("received %q, %v", b[:n], err)
	}
}

func TestUnixSockets(t *testing.T) {
	dir := t.TempDir()
	stream, dgram, free := filepath.Join(dir, "s"), filepath.Join(dir, "d"), filepath.Join(dir, "free")
	abstract := "tether-probe-test-" + filepath.Base(dir) + strconv.Itoa(unix.Getpid())
	for _, name := range []string{stream, "@" + abstract} {
		l, err := net.Listen("unix", name)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	packets, err := net.ListenPacket("unixgram", dgram)
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()

	expect(t, "ok", "connect-unix", stream)
	expect(t, "connect-unix: ENOENT", "connect-unix", free)
	expect(t, "ok", "connect-abstract", abstract)
	expect(t, "connect-abstract: ECONNREFUSED", "connect-abstract", abstract+"x")
	expect(t, "ok", "sendmsg-unix", dgram)
	receiveByte(t, packets)
	expect(t, "sendmsg-unix: ENOENT", "sendmsg-unix", free)
	expect(t, "bind-unix: EADDRINUSE", "bind-unix", stream)
	expect(t, "ok", "bind-unix", free)
	missing(t, free)
}
