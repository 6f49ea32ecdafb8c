package conformance

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest"
)

// A managedCase is a sandbox with a managed network.
type managedCase struct {
	name   string
	policy policy
	params map[string]any
}

// managedCases returns sandboxes with a managed network and different further settings. The proxy of each reaches none of
// the targets of the attacks.
func managedCases() []managedCase {
	allUnix := map[string]any{"managedNetwork": map[string]any{"dangerouslyAllowAllUnixSockets": true}}
	return []managedCase{
		{"prepared", workspaceOnly(), enforce()},
		{"proxy", workspaceOnly(), enforce(networkProxy(nil))},
		{"network", workspaceOnly().net(), enforce(networkProxy(nil))},
		{"disabled", disabled(), enforce()},
		{"minimal", minimalWrite(), enforce(networkProxy(nil))},
		{"unix", workspaceOnly(), enforce(allUnix)},
	}
}

// reachable has the listeners on the host that attacks try to reach.
type reachable struct {
	sites map[string]*site
	mails []datagramSocket
}

// openReachable opens the listeners and sets variables with their addresses in the fixture.
func openReachable(t *testing.T, fx *fixture) *reachable {
	t.Helper()
	r := &reachable{sites: map[string]*site{}}
	tcp := func(name, address string) {
		s := newSite(t, "tcp", address)
		r.sites[name] = s
		fx.set(name, s.addr())
		fx.set("PORT_"+name, s.port())
	}
	tcp("AT_LOOPBACK", "127.0.0.1:0")
	tcp("AT_LOOPBACK6", "[::1]:0")
	tcp("AT_HOME", privateAddress+":0")
	tcp("AT_HOME6", "["+privateAddress6+"]:0")
	tcp("AT_PUBLIC", evilAddress+":0")
	tcp("AT_METADATA", metadataAddress+":80")
	for _, s := range []struct{ network, address string }{
		{"udp", "127.0.0.1:53"}, {"udp", "[::1]:53"}, {"udp", privateAddress + ":53"}, {"unixgram", fx.dir + "/letters"}, {"unixgram", "@" + fx.mark + "-letters"},
	} {
		r.mails = append(r.mails, newDatagramSocket(t, s.network, s.address))
	}
	for name, address := range map[string]string{"STREAM": fx.dir + "/stream", "ABSTRACT": "@" + fx.mark + "-stream"} {
		r.sites[name] = newSite(t, "unix", address)
		fx.set(name, address)
	}
	for name, address := range map[string]string{"PACKETS": fx.dir + "/packets", "ABSTRACT_PACKETS": "@" + fx.mark + "-packets"} {
		r.sites[name] = newSite(t, "unixpacket", address)
		fx.set(name, address)
	}
	fx.set("LETTERS", fx.dir+"/letters")
	fx.set("ABSTRACT_LETTERS", "@"+fx.mark+"-letters")
	for _, path := range []string{"/letters", "/stream", "/packets"} {
		shared(t, fx.dir+path)
	}
	return r
}

// reached returns the listeners that were reached since the last call.
func (r *reachable) reached(t *testing.T) (names []string) {
	t.Helper()
	for name, s := range r.sites {
		s.settle(t)
		s.mu.Lock()
		if s.visits > 1 { // settle makes one visit
			names = append(names, name)
		}
		s.visits, s.raw = 0, nil
		s.mu.Unlock()
	}
	for _, m := range r.mails {
		if m.empty(t) > 0 {
			names = append(names, m.name)
		}
	}
	return names
}

// networkCalls returns attacks by one probe each. Their field online is the expected output if unix sockets are allowed.
func networkCalls() []call {
	const (
		eperm, killed = `: EPERM\b`, `^exit 159$`
		refused       = `: E(CONNREFUSED|NETUNREACH|ADDRNOTAVAIL)\b`
		nowhere       = `: E(NETUNREACH|HOSTUNREACH|ADDRNOTAVAIL|CONNREFUSED|ACCES)\b`
		noSuch        = `: E(PERM|CONNREFUSED|NETUNREACH|PROTONOSUPPORT|SOCKTNOSUPPORT|OPNOTSUPP|INVAL|AFNOSUPPORT|NOTSUP|NOPROTOOPT|ACCES)\b`
	)
	list := []call{
		{probe: "connect-tcp $AT_LOOPBACK", inside: refused, works: "all"},
		{probe: "connect-tcp $AT_LOOPBACK6", inside: refused, works: "all"},
		{probe: "connect-tcp [::ffff:127.0.0.1]:$PORT_AT_LOOPBACK", inside: refused, works: "all"},
		{probe: "connect-tcp 0.0.0.0:$PORT_AT_LOOPBACK", inside: refused, works: "all"},
		{probe: "connect-tcp [::]:$PORT_AT_LOOPBACK6", inside: refused, works: "all"},
		{probe: "connect-tcp 127.0.0.1:0", inside: refused},
		{probe: "connect-tcp $AT_HOME", inside: nowhere, works: "all"},
		{probe: "connect-tcp [::ffff:10.77.0.1]:$PORT_AT_HOME", inside: nowhere, works: "all"},
		{probe: "connect-tcp $AT_HOME6", inside: nowhere, works: "all"},
		{probe: "connect-tcp $AT_PUBLIC", inside: nowhere, works: "all"},
		{probe: "connect-tcp $AT_METADATA", inside: nowhere, works: "all"},
		{probe: "connect-tcp 255.255.255.255:80", inside: `: E`},
		{probe: "connect-tcp 224.0.0.1:80", inside: `: E`},
		{probe: "fast-open $AT_LOOPBACK", inside: refused, works: "all"},
		{probe: "fast-open $AT_LOOPBACK6", inside: refused, works: "all"},
		{probe: "fast-open $AT_HOME", inside: nowhere, works: "all"},
		{probe: "connect-proto $AT_LOOPBACK stream 6", inside: refused, works: "all"},
		{probe: "connect-proto $AT_LOOPBACK stream 262", inside: noSuch}, // MPTCP
		{probe: "connect-proto $AT_LOOPBACK stream 132", inside: noSuch}, // SCTP
		{probe: "connect-proto $AT_LOOPBACK seqpacket 132", inside: noSuch},
		{probe: "connect-proto $AT_LOOPBACK dccp 33", inside: noSuch},
		{probe: "connect-proto $AT_LOOPBACK stream 256", inside: noSuch}, // SMC
		{probe: "connect-proto 127.0.0.1:53 dgram 17", inside: `^ok$`, works: "all"},
		{probe: "connect-proto 127.0.0.1:53 dgram 136", inside: `^ok$|: E`}, // UDP-Lite
		{probe: "send-udp 127.0.0.1:53", inside: `^ok$`, works: "all"},
		{probe: "send-udp [::1]:53", inside: `^ok$|` + nowhere, works: "all"},
		{probe: "send-udp [::ffff:127.0.0.1]:53", inside: `^ok$`, works: "all"},
		{probe: "send-udp 0.0.0.0:53", inside: `^ok$`, works: "all"},
		{probe: "send-udp 10.77.0.1:53", inside: nowhere, works: "all"},
		{probe: "send-udp 255.255.255.255:53", inside: `: E`},
		{probe: "socket-proto inet raw 1", inside: eperm, works: "root"},
		{probe: "socket-proto inet raw 6", inside: eperm, works: "root"},
		{probe: "socket-proto inet raw 255", inside: eperm, works: "root"},
		{probe: "socket-proto inet6 raw 58", inside: eperm, works: "root"},
		{probe: "socket-proto inet packet 768", inside: eperm, works: "root"}, // which the kernel makes a packet socket
		{probe: "socket-proto inet dgram 1", inside: `^ok$|: E(ACCES|PERM)`},  // ping, on a loopback of its own
		{probe: "socket packet raw", inside: eperm, works: "root"},
		{probe: "socket packet dgram", inside: eperm, works: "root"},
		{probe: "socket netlink raw", inside: eperm, works: "all"},
		{probe: "socket netlink dgram", inside: eperm, works: "all"},
		{probe: "socket vsock stream", inside: eperm, works: "all"},
		{probe: "socket vsock dgram", inside: eperm},
		{probe: "socket vsock seqpacket", inside: eperm},
		{probe: "socket-high vsock stream", inside: eperm, works: "all"},
		{probe: "socket-high netlink raw", inside: eperm, works: "all"},
		{probe: "socket alg seqpacket", inside: eperm},
		{probe: "int80 socket", inside: killed},
		{probe: "x32 getpid", inside: `: ENOSYS\b`},
		{probe: "io-uring-setup", inside: eperm},
		{probe: "io-uring-enter", inside: eperm},
		{probe: "io-uring-register", inside: eperm},
		{probe: "ptrace-child", inside: eperm},
		{probe: "ptrace-traceme", inside: eperm, works: "all"},
		{probe: "process-vm-readv", inside: eperm, works: "all"},
		{probe: "unshare net", inside: eperm, works: "root"},
		{probe: "setns /proc/1/ns/net", inside: ofInit},
		{probe: "setns /proc/self/ns/net", inside: eperm, works: "root"},
		{probe: "nested-net $AT_LOOPBACK", inside: "^contained$"},
		{probe: "nested-net $AT_HOME", inside: "^contained$"},
		{probe: "nested-cgroup", inside: "^contained$"},
	}
	// Families that are loaded on few machines: the filter does not know them.
	for _, family := range []int{unix.AF_X25, unix.AF_RDS, unix.AF_TIPC, unix.AF_BLUETOOTH, unix.AF_CAN, unix.AF_KCM, unix.AF_QIPCRTR, unix.AF_SMC, unix.AF_XDP} {
		list = append(list, call{probe: fmt.Sprintf("socket %d stream", family), inside: eperm}, call{probe: fmt.Sprintf("socket %d raw", family), inside: eperm})
	}
	return append(list, unixCalls()...)
}

// unixCalls are attacks by unix sockets.
func unixCalls() []call {
	const eperm = `: EPERM\b`
	return []call{
		{probe: "connect-unix-type $STREAM stream", inside: eperm, online: "^ok$", works: "all"},
		{probe: "connect-unix-type $PACKETS seqpacket", inside: eperm, online: "^ok$", works: "all"},
		{probe: "sendmsg-unix $LETTERS", inside: eperm, online: "^ok$", works: "all"},
		{probe: "pair-connect dgram $LETTERS", inside: eperm, online: "^ok$", works: "all"},
		{probe: "pair-connect raw $LETTERS", inside: eperm, online: "^ok$", works: "all"}, // which the kernel takes for datagrams
		{probe: "pair-connect stream $STREAM", inside: `: EISCONN\b`},
		{probe: "pair-connect seqpacket $PACKETS", inside: `: EISCONN\b`},
		{probe: "connect-unix-type $ABSTRACT stream", inside: eperm, online: `: ECONNREFUSED\b`, works: "all"},
		{probe: "connect-unix-type $ABSTRACT_PACKETS seqpacket", inside: eperm, online: `: ECONNREFUSED\b`, works: "all"},
		{probe: "sendmsg-unix $ABSTRACT_LETTERS", inside: eperm, online: `: ECONNREFUSED\b`, works: "all"},
		{probe: "pair-connect dgram $ABSTRACT_LETTERS", inside: eperm, online: `: ECONNREFUSED\b`, works: "all"},
		{probe: "pair-connect raw $ABSTRACT_LETTERS", inside: eperm, online: `: ECONNREFUSED\b`, works: "all"},
	}
}

// hiddenSockets reports whether the policy hides the files of sockets.
func (c managedCase) hiddenSockets() bool { return c.name == "minimal" }

// No kind of socket leads out of a managed network.
func TestAdversaryManagedSockets(t *testing.T) {
	eachIsolatedAccount(t, func(t *testing.T, a *account) {
		fx := newFixture(t, a)
		fx.proxy = newClientProxy(t)
		fx.set("HTTP_PROXY", "http://"+fx.proxy.addr())
		r := openReachable(t, fx)
		fx.addAttackPrograms()
		fx.handOver()
		s := &scriptRunner{instance: a.own(t, a.argv(), nil), fx: fx}
		list := networkCalls()
		for _, c := range managedCases() {
			o := s.script(t, c.policy, callScript(list), c.params).finish(t)
			got := sections(o.stdout)
			for _, call := range list {
				want := call.inside
				if c.name == "unix" && call.online != "" {
					want = call.online
				}
				if c.hiddenSockets() && want == `: EISCONN\b` {
					want = `: E(ISCONN|NOENT)\b`
				}
				if !regexp.MustCompile("(?m)" + want).MatchString(got[call.probe]) {
					t.Errorf("%s: %s: %q, want %s", c.name, call.probe, got[call.probe], want)
				}
			}
			var reached []string
			for _, name := range r.reached(t) {
				byPath := name == "STREAM" || name == "PACKETS" || strings.HasPrefix(name, "unixgram /")
				if c.name != "unix" || !byPath {
					reached = append(reached, name)
				}
			}
			if len(reached) > 0 {
				t.Errorf("%s: reached %q", c.name, reached)
			}
			if n := len(fx.proxy.began()); n > 0 {
				t.Errorf("%s: the prepared proxy was reached by another way: %d", c.name, n)
			}
		}
		controlCalls(t, a, s, list)
		reached := map[string]bool{}
		tethertest.Eventually(t, func() error { // datagrams may take a moment
			for _, name := range r.reached(t) {
				reached[name] = true
			}
			if len(reached) != len(r.sites)+len(r.mails) {
				return fmt.Errorf("without a sandbox only %q were reached", slices.Sorted(maps.Keys(reached)))
			}
			return nil
		})
	})
}

// controlCalls makes the calls without a sandbox, where they succeed.
func controlCalls(t *testing.T, a *account, s *scriptRunner, list []call) {
	t.Helper()
	got := sections(s.output(t, unconfined(), callScript(list)).stdout)
	for _, call := range list {
		if (call.works == "all" || call.works == "root" && a.root()) && !strings.HasPrefix(got[call.probe], "ok") {
			t.Errorf("%s without a sandbox: %q", call.probe, got[call.probe])
		}
	}
}

// A command in a managed network sees one network namespace, which is not that of the host, and no descriptor that leads out of it.
func TestAdversaryManagedSurroundings(t *testing.T) {
	const script = `for p in /proc/[0-9]*; do readlink $p/ns/net; done | sort -u | sed 's/^/network /'
		exec 2>&1; for p in /proc/[0-9]*; do $PROBE setns $p/ns/net; done | sort -u
		"$ADV" fds; for fd in 0 1 2; do readlink /proc/self/fd/$fd; done; ls -l /proc/1/fd
		sleep 1000 & $PROBE ptrace-pid $!; $PROBE steal-sockets $(cd /proc; echo [0-9]*); kill $!
		grep : /proc/net/dev; cat /proc/net/unix | wc -l; cat /proc/net/tcp; true`
	eachIsolatedAccount(t, func(t *testing.T, a *account) {
		fx, s := isolatedServer(t, a)
		fx.proxy = newClientProxy(t)
		fx.set("HTTP_PROXY", "http://"+fx.proxy.addr())
		for _, c := range managedCases() {
			o := s.script(t, c.policy, script, c.params).finish(t)
			wants(t, fx, o, []string{`^setns: EPERM$`, `^found 3$`, `^ptrace-pid: EPERM$`, `^contained$`, `^ *lo:`},
				regexp.QuoteMeta(networkOf(t)), "inherited", `socket:\[`, `^setns: ok`, `^ok$`, `^ *(eth|veth|tun|dummy)\d*:`)
			if n := strings.Count(o.stdout, "network net:"); n != 1 {
				t.Errorf("%s: %d networks can be seen", c.name, n)
			}
		}
		o := s.script(t, unconfined(), `readlink /proc/self/ns/net; sleep 1000 & $PROBE ptrace-pid $!; kill $!`).finish(t)
		if !strings.Contains(o.stdout, networkOf(t)) {
			t.Errorf("without a sandbox: %s", o.all)
		}
	})
}

// A process on the host cannot send a descriptor into a sandbox: no socket of a command can get a name that is reachable
// from the host, although the file of the name exists.
func TestAdversaryManagedSendDescriptor(t *testing.T) {
	const name = "$WS/in"
	eachIsolatedAccount(t, func(t *testing.T, a *account) {
		fx, s := isolatedServer(t, a)
		fx.proxy = newClientProxy(t)
		fx.set("HTTP_PROXY", "http://"+fx.proxy.addr())
		handIn := func(p policy, typ string, params map[string]any) outcome {
			c := s.script(t, p, `$PROBE pair-bind `+typ+` `+name, both(params, stdinPipe))
			o := c.until(t, "socket", func(o outcome) bool { return strings.Contains(o.stdout, "bound") || o.exited })
			if !o.exited {
				kind := map[string]int{"dgram": unix.SOCK_DGRAM, "raw": unix.SOCK_DGRAM, "stream": unix.SOCK_STREAM, "seqpacket": unix.SOCK_SEQPACKET}[typ]
				sendDescriptorTo(t, fx.path(name), kind)
				c.write(t, "end\n")
			}
			return c.finish(t)
		}
		for _, c := range managedCases() {
			for _, typ := range []string{"dgram", "raw", "stream", "seqpacket"} {
				o := handIn(c.policy, typ, c.params)
				if c.name == "unix" && (typ == "dgram" || typ == "raw") {
					continue // this case allows all unix sockets
				}
				wants(t, fx, o, []string{`^(pair-bind: EPERM socketpair|listen: EINVAL)$`}, "received a")
			}
		}
		if o := handIn(unconfined(), "dgram", nil); !strings.Contains(o.stdout, "received a descriptor") {
			t.Errorf("without a sandbox: %s", o.all)
		}
	})
}

// sendDescriptorTo sends a descriptor to a socket, if the socket accepts one.
func sendDescriptorTo(t *testing.T, path string, typ int) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return
	}
	secret, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	unix.Sendmsg(fd, []byte("f"), unix.UnixRights(int(secret.Fd())), nil, unix.MSG_DONTWAIT)
}

// A command that overloads its proxy slows only itself. Other commands and the client are still served.
func TestAdversaryOverloadsItsProxy(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		notForReference(t, "it is not attacked")
		fx, s := attackServer(t, a, openSite)
		const greedy = `$PROBE hold-connections 127.0.0.1:${HTTP_PROXY##*:} 600`
		var held []*process
		for range 2 {
			held = append(held, s.script(t, workspaceOnly(), greedy, enforce(networkProxy(loopback), stdinPipe)))
		}
		for _, p := range held {
			p.says(t, "holding")
		}
		o := s.script(t, workspaceOnly(), threeWays, enforce(networkProxy(loopback))).finish(t)
		if n := strings.Count(o.stdout, siteText); n != 3 {
			t.Errorf("another command was served %d times: %s", n, o.all)
		}
		for _, p := range held {
			p.write(t, "end\n")
			p.finish(t)
		}
		tethertest.Eventually(t, func() error { return s.leftovers(fx) })
	})
}

// Each of many commands that start and end at the same time has its own network. None reaches a listener of another.
func TestAdversaryManagedManyCommands(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		notForReference(t, "it is not attacked")
		fx, s := attackServer(t, a, openSite, (*fixture).reserve)
		p := s.script(t, workspaceOnly(), `$PROBE hold-tcp 127.0.0.1:$HELD`, enforce(networkProxy(loopback), stdinPipe))
		o := p.until(t, "port", func(o outcome) bool { return heldPort.MatchString(o.stdout) })
		port := heldPort.FindStringSubmatch(o.stdout)[1]
		script := `$PROBE connect-tcp 127.0.0.1:` + port + `; curl -sS http://127.0.0.1:` + port + `/; echo $HTTP_PROXY`
		var others []*process
		for range 4 {
			others = append(others, s.script(t, workspaceOnly(), script, enforce(networkProxy(loopback))))
		}
		for _, other := range others {
			wants(t, fx, other.finish(t), []string{`^connect-tcp: ECONNREFUSED`, `^upstream failure`}, "^ok$")
		}
		p.write(t, "end\n")
		p.finish(t)
	})
}
