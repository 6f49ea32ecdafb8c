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

// Addresses of the isolated network. Those of the first line are public elsewhere.
const (
	goodAddress, evilAddress       = "9.9.9.1", "9.9.9.2"
	privateAddress, carrierAddress = "10.77.0.1", "100.64.77.1"
	metadataAddress                = "169.254.169.254"
	privateAddress6                = "fd00:77::1"
)

// isolatedHosts is the hosts file of the isolated network.
const isolatedHosts = `127.0.0.1 localhost
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

// The main thread stays in its network: /proc/self shows the network of the main thread, so no test must move that thread
// to another one.
func init() { runtime.LockOSThread() }

// enterIsolatedNetwork moves the test and the processes that it starts into a new network namespace, until the test ends. It has
// all kinds of addresses and no connection to any other network.
func enterIsolatedNetwork(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || !canMount(t) {
		if inCI() {
			t.Fatal("needs root to make a network namespace")
		}
		t.Skip("needs root to make a network namespace")
	}
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		t.Fatalf("make a network: %v", err)
	}
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte(isolatedHosts), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	lines := []string{"link set lo up"}
	for _, address := range []string{goodAddress, evilAddress, privateAddress, carrierAddress, metadataAddress} {
		lines = append(lines, "addr add "+address+"/32 dev lo")
	}
	lines = append(lines, "-6 addr add "+privateAddress6+"/128 dev lo nodad")
	for _, line := range lines {
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", line, err, out)
		}
	}
}

// eachIsolatedAccount runs a test as every user, each in an isolated network.
func eachIsolatedAccount(t *testing.T, test func(*testing.T, *account)) {
	t.Helper()
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		enterIsolatedNetwork(t)
		test(t, a)
	})
}

// isolatedServer returns a fixture for attacks and a server in the isolated network.
func isolatedServer(t *testing.T, a *account, setup ...func(*fixture)) (*fixture, *scriptRunner) {
	t.Helper()
	fx := attackFixture(t, a, setup...)
	return fx, &scriptRunner{instance: a.own(t, a.argv(), nil), fx: fx}
}

// pending receives a message from a socket and reports whether there was one. Messages on the loopback arrive without delay.
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

// networkOf returns the network namespace of the calling thread.
func networkOf(t *testing.T) string {
	t.Helper()
	link, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return link
}

// A datagramSocket receives datagrams on the host.
type datagramSocket struct {
	name string
	conn net.PacketConn
}

func newDatagramSocket(t *testing.T, network, address string) datagramSocket {
	t.Helper()
	conn, err := net.ListenPacket(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return datagramSocket{fmt.Sprintf("%s %s", network, address), conn}
}

// empty receives all messages and returns their number.
func (m datagramSocket) empty(t *testing.T) (n int) {
	t.Helper()
	conn := m.conn.(syscall.Conn)
	for pending(t, conn) {
		n++
	}
	return n
}
