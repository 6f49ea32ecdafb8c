package conformance

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A command inherits no descriptor that leads out of the sandbox.
func TestAdversaryDescriptors(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		for _, params := range []map[string]any{nil, tty, {"pipeStdin": true}} {
			p := s.script(t, c.policy, `exec "$ADV" fds`, params)
			wants(t, fx, p.finish(t), []string{`^found 3\r?$`}, "inherited")
		}
	})
	t.Run("control", func(t *testing.T) {
		fx := newFixture(t, suite.accounts[0])
		fx.addAttackPrograms()
		dir, err := os.Open(fx.ws)
		fx.check(err)
		defer dir.Close()
		cmd := exec.Command(fx.ws+"/adversary", "fds")
		cmd.ExtraFiles = []*os.File{dir}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "ESCAPED by 3") {
			t.Errorf("with a directory as descriptor 3: %s (%v)", out, err)
		}
	})
}

// serveDescriptor listens on a unix socket and sends a descriptor of the secret to each client.
func serveDescriptor(t *testing.T, name, secret string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	var worker sync.WaitGroup
	worker.Go(func() { // ends with the listener
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			if file, err := os.Open(secret); err == nil {
				conn.WriteMsgUnix([]byte("f"), unix.UnixRights(int(file.Fd())), nil)
				file.Close()
			}
			conn.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		worker.Wait()
	})
}

// shared lets every user reach a socket of the host.
func shared(t *testing.T, path string) {
	t.Helper()
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
}

// A command without the network cannot reach a host process that sends descriptors. Abstract socket names count as
// network.
func TestAdversaryFetch(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		path, abstract := fx.dir+"/giver", "@"+fx.mark
		serveDescriptor(t, path, fx.out+"/secret.txt")
		serveDescriptor(t, abstract, fx.out+"/secret.txt")
		shared(t, path)
		script := `"$ADV" fetch ` + path + `; "$ADV" fetch ` + abstract
		o := s.output(t, c.policy, script)
		if c.name == "network" { // with the network, the unix sockets of the host can be reached (N19)
			wants(t, fx, o, []string{"^connect: ok"})
		} else {
			wants(t, fx, o, []string{"^connect: E(PERM|NOENT)"}, "^connect: ok", "fetched")
		}
		o = s.output(t, unconfined(), script)
		if n := strings.Count(o.all, "fetched "+secretText); n != 2 {
			t.Errorf("without a sandbox the secret was fetched %d times: %s", n, o.all)
		}
	})
}

// datagrams is a unix datagram socket on the host.
type datagrams struct{ conn *net.UnixConn }

func listenDatagrams(t *testing.T, name string) datagrams {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return datagrams{conn}
}

// arrived reports whether a message has arrived, and returns the content of the file whose descriptor came with it.
func (d datagrams) arrived(t *testing.T) (came bool, text string) {
	t.Helper()
	raw, err := d.conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buf, oob := make([]byte, 10), make([]byte, unix.CmsgSpace(4))
	var n int
	var got error
	if err := raw.Control(func(fd uintptr) { // a sent message is there at once: unix sockets have no delay
		_, n, _, _, got = unix.Recvmsg(int(fd), buf, oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	}); err != nil {
		t.Fatal(err)
	}
	if got != nil {
		return false, ""
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) == 0 {
		return true, ""
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fds[0]), "sent")
	defer file.Close()
	content := make([]byte, 100)
	size, _ := file.Read(content)
	return true, string(content[:size])
}

// A command can send a descriptor to a datagram socket whose file it sees: sendmsg must be allowed for socket pairs, and
// a filter cannot read the address (package seccomp). It cannot if the file is hidden, or by an abstract name.
func TestAdversarySend(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		hidden := listenDatagrams(t, fx.out+"/socket")
		abstract := listenDatagrams(t, "@"+fx.mark+"-datagram")
		shared(t, fx.out+"/socket")
		script := `"$ADV" sendfd $OUT/socket $WS/a.txt; "$ADV" sendfd @` + fx.mark + `-datagram $WS/a.txt`
		o := s.output(t, c.policy, script)
		wants(t, fx, o, []string{"^open: ok", "^socket: ok"})
		if came, _ := abstract.arrived(t); came != (c.name == "network") {
			t.Errorf("by an abstract name: %v, %s", came, o.all)
		}
		came, _ := hidden.arrived(t)
		switch c.name {
		case "root-deny", "minimal":
			if came {
				t.Errorf("a hidden socket was reached: %s", o.all)
			}
		default:
			t.Logf("a socket that can be seen was reached: %v", came)
		}
		s.output(t, unconfined(), script)
		if came, text := hidden.arrived(t); !came || text != fileText {
			t.Errorf("without a sandbox: came %v, shows %q", came, text)
		}
		fx.check(os.Remove(fx.out + "/socket"))
		fx.intact(t)
	})
}

// A command that injects input with TIOCSTI reaches at most its own terminal.
func TestAdversaryTerminal(t *testing.T) {
	eachPolicyCase(t, func(t *testing.T, a *account, c policyCase) {
		fx, s := attackServer(t, a)
		p := s.script(t, c.policy, `"$ADV" type; "$ADV" master; ls /dev/pts /dev/vc* /dev/input /dev/uinput; true`, tty)
		o := p.finish(t)
		wants(t, fx, o, []string{
			`^tioclinux: E(INVAL|NOTTY|PERM)`, `^tioccons /dev/tty: EPERM`, `^open /dev/tty0: ENOENT`, `^open /dev/hvc0: ENOENT`,
			`^tiocgptn: ENOTTY`, `^tiocgptpeer: (ENOTTY|EIO)`, `^pts of its own`,
		}, "FOREIGN", "SHARED", `^open /dev/(tty1|vcs|ttyS0): ok`)
		p = s.script(t, c.policy, `"$ADV" type; true`) // without a terminal there is none to type to
		wants(t, fx, p.finish(t), []string{`^tiocsti: ENOTTY`, `^open /dev/tty: ENXIO`}, "FOREIGN", `^open /dev/console: ok`)
	})
}

// terminal makes a terminal and returns its master end and the path of its other end.
func terminal(t *testing.T, a *account) (master *os.File, path string) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	path = fmt.Sprintf("/dev/pts/%d", n)
	if err := os.Chown(path, a.uid, a.gid); err != nil {
		t.Fatal(err)
	}
	return master, path
}

// onTerminal runs a server with $0 as its controlling terminal, but not as any
// of its descriptors.
const onTerminal = `exec 3<&0 < "$0"; exec setsid --ctty sh -c 'exec <&3 3<&-; exec "$@"' sh "$@"`

// A command cannot write or inject input to the terminal of the server.
func TestAdversaryServersTerminal(t *testing.T) {
	notForReference(t, "it is not attacked")
	eachAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.addAttackPrograms()
		fx.handOver()
		master, path := terminal(t, a)
		s := &scriptRunner{instance: a.own(t, append([]string{"/bin/sh", "-c", onTerminal, path}, a.argv()...), nil), fx: fx}
		const inject = `"$ADV" type; for t in /dev/tty /dev/console %[1]s /proc/1/fd/0 /proc/1/fd/1; do (echo INJECTED > $t); done 2>&1; true`
		for _, c := range policyCases() {
			for _, params := range []map[string]any{nil, tty} {
				o := s.script(t, c.policy, fmt.Sprintf(inject, path), params).finish(t)
				wants(t, fx, o, []string{path + `: (` + textNOENT + `|Directory nonexistent)|create ` + path}, "FOREIGN")
			}
		}
		if text := shown(t, master); strings.Contains(text, "INJECTED") {
			t.Errorf("the server's terminal shows %q", text)
		}
		s.output(t, unconfined(), `echo INJECTED > `+path)
		text := ""
		tethertest.Eventually(t, func() error { // the kernel delivers terminal output with a delay
			if text += shown(t, master); !strings.Contains(text, "INJECTED") {
				return fmt.Errorf("without a sandbox the terminal shows %q", text)
			}
			return nil
		})
	})
}

// shown returns the output of a terminal that has not been read yet.
func shown(t *testing.T, master *os.File) string {
	t.Helper()
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	var n int
	if err := raw.Control(func(fd uintptr) { n, _ = unix.Read(int(fd), buf) }); err != nil {
		t.Fatal(err)
	}
	return string(buf[:max(n, 0)])
}
