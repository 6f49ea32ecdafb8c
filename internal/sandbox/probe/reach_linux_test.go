package probe

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSocketProtocols(t *testing.T) {
	expect(t, "ok", "socket-proto", "inet", "stream", strconv.Itoa(unix.IPPROTO_TCP))
	expect(t, "socket-proto: EPROTONOSUPPORT", "socket-proto", "inet", "stream", strconv.Itoa(unix.IPPROTO_UDP))
	if r := run(t, "socket-proto", "inet", "no-type", "0"); r.code != exitUsage {
		t.Errorf("got %+v", r)
	}
}

func TestConnectProtocol(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, args := range [][]string{
		{"connect-proto", l.Addr().String(), "stream", strconv.Itoa(unix.IPPROTO_TCP)},
		{"fast-open", l.Addr().String()},
	} {
		expect(t, "ok", args...)
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 8)
		if n, err := conn.Read(b); string(b[:n]) != "p" {
			t.Errorf("%q sent %q (%v)", args, b[:n], err)
		}
		conn.Close()
	}
	nobody := unheard(t)
	expect(t, "connect-proto: ECONNREFUSED", "connect-proto", nobody, "stream", "0")
	expect(t, "fast-open: ECONNREFUSED", "fast-open", nobody)
}

// unheard returns an address that stays bound while the test runs, but has no listener.
func unheard(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
}

func TestPairs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "d")
	packets, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	for _, typ := range []string{"dgram", "raw"} {
		expect(t, "ok", "pair-connect", typ, path)
		receiveByte(t, packets)
	}
	stream := filepath.Join(dir, "s")
	l, err := net.Listen("unix", stream)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	expect(t, "pair-connect: EISCONN", "pair-connect", "stream", stream)
	expect(t, "pair-connect: EPROTOTYPE", "pair-connect", "seqpacket", path)
	expect(t, "connect-unix-type: EPROTOTYPE", "connect-unix-type", path, "stream")
	expect(t, "ok", "connect-unix-type", path, "dgram")
}

// held runs a probe until it has printed a line that begins with begin, calls f with
// the line, ends the probe's input, and returns the rest of its output.
func held(t *testing.T, c *exec.Cmd, begin string, f func(line string)) string {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), begin) {
			f(lines.Text())
			break
		}
	}
	in.Close()
	var rest []string
	for lines.Scan() {
		rest = append(rest, lines.Text())
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%q: %v", c.Args, err)
	}
	return strings.Join(rest, "\n")
}

func TestPairBind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b")
	rest := held(t, command(t, "pair-bind", "dgram", path), "bound", func(string) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Sendmsg(fd, []byte("f"), unix.UnixRights(2), &unix.SockaddrUnix{Name: path}, 0); err != nil {
			t.Error(err)
		}
	})
	if rest != "received a descriptor" {
		t.Errorf("the rest of the output is %q", rest)
	}
	missing(t, path)
}

func TestHold(t *testing.T) {
	said := false
	held(t, command(t, "hold-tcp", "127.0.0.1:0"), "port ", func(line string) {
		said = true
		conn, err := net.Dial("tcp", "127.0.0.1:"+strings.TrimPrefix(line, "port "))
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	})
	if !said {
		t.Error("no port")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	held(t, command(t, "hold-connections", l.Addr().String(), "3"), "holding", func(string) {
		for range 3 {
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
	})
}

func TestNestedNet(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := run(t, "nested-net", l.Addr().String())
	switch {
	case strings.Contains(r.out, "unshare: E"):
		t.Skip("no user namespaces here")
	case r.code != exitOK || !strings.HasSuffix(r.out, "contained"): // true also without a sandbox
		t.Errorf("got %+v", r)
	}
}

func TestSiblings(t *testing.T) {
	other := exec.CommandContext(t.Context(), "sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	r := run(t, "ptrace-pid", strconv.Itoa(other.Process.Pid))
	if r.out != "ok" && r.out != "ptrace-pid: EPERM" { // depends on the kernel's settings
		t.Errorf("got %+v", r)
	}
	if r := run(t, "ptrace-pid", "x"); r.code != exitUsage {
		t.Errorf("got %+v", r)
	}
}

func TestStealSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a socket of this process, to be stolen
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	own := strconv.Itoa(os.Getpid())
	r := run(t, "steal-sockets", own)
	if r.out == "contained" && os.Geteuid() != 0 {
		t.Skip("the kernel's settings forbid it")
	}
	if r.code != exitFailed || !strings.HasPrefix(r.out, "ESCAPED "+own+"/") {
		t.Errorf("got %+v", r)
	}
}
