package conformance

import (
	"net"
	"strings"
	"testing"
)

// probeRow is a row whose command is one probe that the sandbox stops.
func probeRow(id string, p policy, probe, errno string) row {
	return row{id: id, policy: p, probe: probe, exit: 1, denied: no, out: []string{": " + errno + `\b`}}
}

// worksRow is a row whose command is one probe that the sandbox lets pass.
func worksRow(id string, p policy, probe string) row {
	return row{id: id, policy: p, probe: probe}
}

// differs notes what the reference does instead.
func differs(r row, reference string) row {
	r.Reference = reference
	return r
}

func networkRows() []row {
	closed, open := workspaceOnly(), workspaceOnly().net()
	socket := func(fx *fixture) { fx.socket() }
	listener := func(r row) row {
		r.setup = socket
		return r
	}
	rows := []row{
		probeRow("N01", closed, "socket inet stream", "EPERM"),
		probeRow("N02", closed, "socket inet dgram", "EPERM"),
		probeRow("N03", closed, "socket inet6 stream", "EPERM"),
		probeRow("N04", closed, "socket netlink raw", "EPERM"),
		probeRow("N05", closed, "socket packet raw", "EPERM"),
		probeRow("N06", closed, "socket vsock stream", "EPERM"),
		probeRow("N07", closed, "socket alg seqpacket", "EPERM"),
		worksRow("N08", closed, "socket unix stream"),
		worksRow("N09", closed, "socket unix dgram"),
		listener(probeRow("N10", closed, "connect-unix $SOCK", "EPERM")),
		{id: "N11", policy: closed, probe: "bind-unix $WS/made", exit: 1, denied: no, out: []string{": EPERM"}, host: []string{"-$WS/made"}},
		{id: "N13", policy: closed, probe: "unixpair", out: []string{
			"^read: ok", "^write: ok", "^sendmsg: ok", "^recv: ok", "^recvmsg: ok", "^send: EPERM", "^getsockopt: EPERM", "^setsockopt: EPERM",
			"^getsockname: EPERM", "^getpeername: ENOTCONN", "^shutdown: EPERM", "^sendmmsg: EPERM", "^recvmmsg: EPERM",
		}, Reference: "getpeername fails with EPERM, which makes bash -c source ~/.bashrc"},
		probeRow("N14", closed, "socketpair inet", "EPERM"),
		{id: "N15", policy: closed, script: `curl -sS http://127.0.0.1:$PORT/`, exit: 7, denied: no},
		{id: "N16", policy: closed, script: `bash -c 'exec 3<>/dev/tcp/127.0.0.1/$PORT'; grep -c : /proc/net/dev; grep -o 'lo:' /proc/net/dev`,
			out: []string{textPERM, "^1$", "^lo:"}},
		{id: "N17", policy: open, script: `bash -c 'cat < /dev/tcp/127.0.0.1/$PORT'`, out: []string{"hello from the host"}},
		{id: "N19", policy: open, setup: socket, probe: "connect-unix $SOCK"},
		worksRow("N20", open, "listen-tcp 127.0.0.1:0"),
		worksRow("N21", open, "socket netlink raw"),
		probeRow("N22", rootWrite(), "connect-tcp 127.0.0.1:$PORT", "EPERM"),
		probeRow("N23", external(), "connect-tcp 127.0.0.1:$PORT", "EPERM"),
		worksRow("N24", disabled(), "connect-tcp 127.0.0.1:$PORT"),
		worksRow("N25", open, "ptrace-child"),
		{id: "N28", policy: closed, probe: "int80 socket", exit: 159, denied: yes},
		{id: "N28-un", policy: unrestricted(), probe: "int80 socket", exit: 159, denied: yes},
		probeRow("N33", open, "socket vsock stream", "EPERM"),
		probeRow("N34", closed, "socket-high inet stream", "EPERM"), // the domain is 32 bits
		probeRow("N35", open, "socket-high vsock stream", "EPERM"),
	}
	for id, p := range map[string]policy{"S31": closed, "S31-net": open} {
		rows = append(rows, differs(row{id: id, policy: p, probe: "nested-cgroup", out: []string{"^unshare: EPERM$", "^clone: EPERM$", "^contained$"}},
			"cgroup namespaces can be made"))
	}
	rows = append(rows, differs(probeRow("S31-clone3", closed, "clone3 cgroup", "ENOSYS"), "clone3 passes"))
	for _, call := range []string{"setup", "enter", "register"} {
		rows = append(rows, probeRow("N26-"+call, open, "io-uring-"+call, "EPERM"))
	}
	return rows
}

// A packet from a command with the network arrives on the host.
// Scenario N18.
func TestPacketFromInsideArrives(t *testing.T) {
	eachAccount(t, func(t *testing.T, a *account) {
		host, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		row{policy: workspaceOnly().net(), probe: "send-udp " + host.LocalAddr().String()}.run(t, a)
		if _, _, err := host.ReadFrom(make([]byte, 100)); err != nil {
			t.Error(err)
		}
	})
}

func systemRows() []row {
	closed, open := workspaceOnly(), workspaceOnly().net()
	rows := []row{
		probeRow("S01-attach", closed, "ptrace-child", "EPERM"),
		probeRow("S01-traceme", closed, "ptrace-traceme", "EPERM"),
		probeRow("S03-readv", closed, "process-vm-readv", "EPERM"),
		probeRow("S03-writev", closed, "process-vm-writev", "EPERM"),
		probeRow("S05", closed, "mount-tmpfs $WS/sub", "EPERM"),
		probeRow("S06", closed, "umount /proc", "EPERM"),
		probeRow("S07", closed, "remount-rw /", "EPERM"),
		worksRow("S08", closed, "unshare user"),
		probeRow("S09", closed, "unshare net", "EPERM"),
		probeRow("S10", closed, "unshare mnt", "EPERM"),
		{id: "S11", policy: closed.deny("$OUT"), probe: "nested $OUT", out: []string{"remount /: EPERM", "umount .*: EINVAL", "write .*: (EACCES|EROFS)", "^contained"}, host: []string{"+$OUT/secret.txt"}},
		{id: "S12", policy: closed, setup: func(fx *fixture) { fx.write("$WS/.git/config", "c\n") }, probe: "nested $WS/.git",
			out: []string{"remount /: EPERM", "umount .*: EINVAL", "write .*: EROFS", "^contained"}},
		probeRow("S14", closed, "chroot $WS", "EPERM"),
		probeRow("S15", closed, "setuid 65534", "(EINVAL|EPERM)"),
		differs(probeRow("S18", closed, "keyctl", "EPERM"), "key rings can be used"),
		differs(probeRow("S18-net", open, "keyctl", "EPERM"), "key rings can be used"),
		{id: "S19", policy: closed, script: `$PROBE userfaultfd; true`}, // a matter of the kernel's settings
		worksRow("S20", closed, "pidfd-getfd"),
		worksRow("S21", closed, "memfd-exec"),
		{id: "S22", policy: closed, probe: "int80 getpid", exit: 159, denied: yes},
		{id: "S22-net", policy: open, probe: "int80 getpid", exit: 159, denied: yes},
		worksRow("S23", closed, "shm-create"),
		{id: "S24", policy: closed, script: `su root -c id < /dev/null; echo inner $?; grep CapEff /proc/self/status`, out: []string{"inner [1-9]", `CapEff:\s+0+$`}},
		{id: "S25", policy: closed, probe: "fds", out: []string{"^0 1 2$"}},
		{id: "S25-tty", policy: closed, probe: "fds", params: map[string]any{"tty": true}, out: []string{"^0 1 2\r?$"}},
		{id: "S26", policy: closed, probe: "sigmask", check: sameAsUnconfined("sigmask")},
	}
	for _, call := range []string{"setup", "enter", "register"} {
		rows = append(rows, probeRow("S04-"+call, closed, "io-uring-"+call, "EPERM"))
	}
	for _, probe := range []string{
		"open-tree", "fsopen", "move-mount", "mount-setattr", "pivot-root", "bpf", "fanotify",
		"kexec-load", "init-module", "reboot", "swapon", "open-by-handle $OUT/secret.txt",
	} {
		name, _, _ := strings.Cut(probe, " ")
		rows = append(rows, row{id: "S30-" + name, policy: closed, probe: probe, exit: 1, denied: no, out: []string{`: E\w+`}})
	}
	return rows
}
