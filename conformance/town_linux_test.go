package conformance

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Addresses of a town. Those of the first line are public elsewhere.
const (
	townGood, townEvil       = "9.9.9.1", "9.9.9.2"
	townPrivate, townCarrier = "10.77.0.1", "100.64.77.1"
	townMetadata             = "169.254.169.254"
	townPrivate6             = "fd00:77::1"
)

// townNames are the names that a town knows.
const townNames = `127.0.0.1 localhost
9.9.9.1 good.example vhost.example
9.9.9.2 evil.example
127.0.0.1 loop.example
::1 six.example
0.0.0.0 zero.example
10.77.0.1 private.example
169.254.169.254 meta.example
9.9.9.1 mixed.example
127.0.0.1 mixed.example
`

// The first thread stays with the function main: what /proc/self says about networks is
// about that thread, and no test must take it somewhere else.
func init() { runtime.LockOSThread() }

// enterTown makes the test, and what it starts, live in a network of its own, which
// leads nowhere and has all kinds of addresses. Whatever is dialled there stays there.
// It lasts as long as the test.
func enterTown(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || !powerful(t) {
		if inCI() {
			t.Fatal("needs root, to make a network")
		}
		t.Skip("needs root, to make a network")
	}
	runtime.LockOSThread() // for good: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		t.Fatalf("make a network: %v", err)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte(townNames), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	lines := []string{"link set lo up"}
	for _, address := range []string{townGood, townEvil, townPrivate, townCarrier, townMetadata} {
		lines = append(lines, "addr add "+address+"/32 dev lo")
	}
	lines = append(lines, "-6 addr add "+townPrivate6+"/128 dev lo nodad")
	for _, line := range lines {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", line, err, out)
		}
	}
}

// eachTown runs a test as every user, in a network of its own.
func eachTown(t *testing.T, test func(*testing.T, *account)) {
	t.Helper()
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		enterTown(t)
		test(t, a)
	})
}

// townServer is a server in the town, and a fixture for attacks.
func townServer(t *testing.T, a *account, setup ...func(*fixture)) (*fixture, *serial) {
	t.Helper()
	fx := armed(t, a, setup...)
	return fx, &serial{instance: a.own(t, bench.server.Argv, nil), fx: fx}
}

// pending reports whether something waits to be received by a socket: what was sent is
// there, as it does not travel far.
func pending(t *testing.T, conn syscall.Conn) bool {
	t.Helper()
	c, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got error
	if err := c.Control(func(fd uintptr) {
		_, _, got = unix.Recvfrom(int(fd), make([]byte, 10), unix.MSG_DONTWAIT)
	}); err != nil {
		t.Fatal(err)
	}
	return got == nil
}

// networkOf names the network of the calling thread.
func networkOf(t *testing.T) string {
	t.Helper()
	link, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// A mailbox is a socket for datagrams, on the host.
type mailbox struct {
	name string
	conn net.PacketConn
}

func newMailbox(t *testing.T, network, address string) mailbox {
	t.Helper()
	conn, err := net.ListenPacket(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return mailbox{fmt.Sprintf("%s %s", network, address), conn}
}

// empty reports how many messages have come.
func (m mailbox) empty(t *testing.T) (n int) {
	t.Helper()
	conn := m.conn.(syscall.Conn)
	for pending(t, conn) {
		n++
	}
	return n
}
