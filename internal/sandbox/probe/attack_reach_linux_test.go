package probe

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ways to reach other processes that a filter of socket calls may miss.
var reachAttacks = []probe{
	{"socket-proto", "DOMAIN TYPE PROTOCOL", socketProto},
	{"connect-proto", "ADDR:PORT TYPE PROTOCOL", connectProto},
	{"fast-open", "ADDR:PORT", fastOpen},
	{"connect-unix-type", "PATH TYPE", connectUnixType},
	{"pair-connect", "TYPE PATH", pairConnect},
	{"pair-bind", "TYPE PATH", pairBind},
	{"hold-tcp", "ADDR:PORT", holdTCP},
	{"hold-connections", "ADDR:PORT COUNT", holdConnections},
	{"exchange", "ADDR:PORT SECONDS FILES…", exchange},
	{"nested-net", "ADDR:PORT", nestedNet},
	{"ptrace-pid", "PID", ptracePID},
	{"steal-sockets", "PIDS…", stealSockets},
}

// moreTypes are types that only some protocols have. The kernel makes a packet socket
// of an internet socket with type packet.
var moreTypes = map[string]uintptr{"packet": unix.SOCK_PACKET, "dccp": unix.SOCK_DCCP, "rdm": unix.SOCK_RDM}

func socketType(text string) (int, error) {
	if t, ok := socketTypes[text]; ok {
		return int(t), nil
	}
	if t, ok := moreTypes[text]; ok {
		return int(t), nil
	}
	return 0, errUsage
}

// typeAndProtocol parses TYPE and PROTOCOL; the latter is a number.
func typeAndProtocol(args []string) (typ, protocol int, err error) {
	if typ, err = socketType(args[0]); err != nil {
		return 0, 0, err
	}
	if protocol, err = strconv.Atoi(args[1]); err != nil {
		return 0, 0, errUsage
	}
	return typ, protocol, nil
}

func socketProto(args []string) error {
	d, err := domain(args[0])
	if err != nil {
		return err
	}
	typ, protocol, err := typeAndProtocol(args[1:])
	if err != nil {
		return err
	}
	fd, err := unix.Socket(int(d), typ|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// connectProto connects by any protocol that has internet addresses. A protocol without
// connections prints ok even without a listener.
func connectProto(args []string) error {
	family, addr, err := inetAddr(args[0])
	if err != nil {
		return err
	}
	typ, protocol, err := typeAndProtocol(args[1:])
	if err != nil {
		return err
	}
	fd, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return at("socket", err)
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: connectSeconds})
	if err := unix.Connect(fd, addr); err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte("p"))
	return at("write", err)
}

// fastOpen connects without calling connect: the first packet carries the data.
func fastOpen(args []string) error {
	fd, addr, err := inetSocket(args[0], unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: connectSeconds})
	return unix.Sendto(fd, []byte("p"), unix.MSG_FASTOPEN, addr)
}

// connectUnixType is connect-unix for any type; "@" begins an abstract name.
func connectUnixType(args []string) error {
	typ, err := socketType(args[1])
	if err != nil {
		return err
	}
	fd, addr, err := unixSocket(args[0], typ)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, addr)
}

func unixPairOf(text string) (pair [2]int, err error) {
	typ, err := socketType(text)
	if err != nil {
		return pair, err
	}
	pair, err = unix.Socketpair(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	return pair, at("socketpair", err)
}

// pairConnect makes a socket pair without calling socket, connects one end to a path,
// and sends a byte there.
func pairConnect(args []string) error {
	pair, err := unixPairOf(args[0])
	if err != nil {
		return err
	}
	defer closeAll(pair[:]...)
	if err := unix.Connect(pair[0], &unix.SockaddrUnix{Name: args[1]}); err != nil {
		return err
	}
	_, err = unix.Write(pair[0], []byte("p"))
	return at("write", err)
}

// pairBind binds one end of a socket pair to a name, so that others may send or connect to it, and closes
// the other end. It prints the result of each step, and "bound". When it gets input, it prints what it has
// received.
func pairBind(args []string) error {
	pair, err := unixPairOf(args[0])
	if err != nil {
		return err
	}
	defer closeAll(pair[:]...)
	err = unix.Bind(pair[0], &unix.SockaddrUnix{Name: args[1]})
	fmt.Printf("bind: %s\n", outcome(err))
	if err == nil {
		defer unix.Unlink(args[1])
		nobody := [2]byte{unix.AF_UNSPEC}
		left := raw(unix.SYS_CONNECT, uintptr(pair[0]), uintptr(unsafe.Pointer(&nobody)), 2)
		fmt.Printf("leave: %s\n", outcome(errnoOr(left)))
		fmt.Printf("listen: %s\nbound\n", outcome(unix.Listen(pair[0], 1)))
	}
	if err := awaitEnd(); err != nil {
		return err
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
	switch {
	case err != nil:
		fmt.Printf("received: %s\n", outcome(err))
	case n > 0:
		fmt.Println("received a descriptor")
	default:
		fmt.Println("received a message")
	}
	return errQuiet
}

// awaitEnd waits for input, or for its end.
func awaitEnd() error {
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil && err != io.EOF {
		return at("read", err)
	}
	return nil
}

// holdTCP listens until it gets input, and prints its port.
func holdTCP(args []string) error {
	fd, err := listener(args[0])
	defer unix.Close(fd)
	if err != nil {
		return err
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return at("getsockname", err)
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		fmt.Printf("port %d\n", a.Port)
	case *unix.SockaddrInet6:
		fmt.Printf("port %d\n", a.Port)
	}
	return awaitEnd()
}

// holdConnections begins as many requests as the argument says, prints "holding", and
// finishes none of them. It ends when it gets input.
func holdConnections(args []string) error {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return errUsage
	}
	for range count {
		fd, addr, err := inetSocket(args[0], unix.SOCK_STREAM)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Connect(fd, addr); err != nil {
			return err
		}
		if _, err := unix.Write(fd, []byte("GET http://slow")); err != nil {
			return at("write", err)
		}
	}
	fmt.Println("holding")
	return awaitEnd()
}

// nestedNet makes itself root of a user and network namespace inside this one, and tries
// to return to a network that has a listener at an address. It prints the result of each
// step, then "contained", or "ESCAPED" and how, and fails.
func nestedNet(args []string) error {
	family, addr, err := inetAddr(args[0])
	if err != nil {
		return err
	}
	before, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|quick, 0)
	if err != nil {
		return at("open", err)
	}
	defer unix.Close(before)
	first, err := unix.Open("/proc/1/ns/net", unix.O_RDONLY|quick, 0)
	if err == nil {
		defer unix.Close(first)
	}
	to := sockaddrBytes(addr)
	var s script
	s.must("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER|unix.CLONE_NEWNET)
	s.becomeRoot()
	var escapes []int
	reach := func(how string) {
		opened := s.try("socket "+how, unix.SYS_SOCKET, uintptr(family), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		escapes = append(escapes, s.on(opened, "connect "+how, unix.SYS_CONNECT, s.data(to), uintptr(len(to))))
	}
	reach("from within")
	s.try("netlink", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	s.try("packets", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	s.try("setns before", unix.SYS_SETNS, uintptr(before), unix.CLONE_NEWNET)
	reach("in the one before")
	s.try("setns first", unix.SYS_SETNS, uintptr(first), unix.CLONE_NEWNET)
	reach("in that of the first")
	results, err := s.run()
	if err != nil {
		return err
	}
	var how []string
	for i, r := range results {
		if r.done != 0 {
			fmt.Printf("%s: %s\n", s.calls[i].name, outcome(errnoOr(r.errno)))
		}
	}
	for _, i := range escapes {
		if results[i].done != 0 && results[i].errno == 0 {
			how = append(how, s.calls[i].name)
		}
	}
	return printConclusion(how)
}

// sockaddrBytes returns an internet address in the kernel's form.
func sockaddrBytes(addr unix.Sockaddr) []byte {
	port := func(p int) []byte { return []byte{byte(p >> 8), byte(p)} }
	switch a := addr.(type) {
	case *unix.SockaddrInet4:
		b := append([]byte{unix.AF_INET, 0}, port(a.Port)...)
		return append(append(b, a.Addr[:]...), make([]byte, 8)...)
	case *unix.SockaddrInet6:
		b := append(append([]byte{unix.AF_INET6, 0}, port(a.Port)...), 0, 0, 0, 0)
		return append(append(b, a.Addr[:]...), 0, 0, 0, 0)
	}
	return nil
}

// ptracePID attaches to a process, and detaches.
func ptracePID(args []string) error {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return errUsage
	}
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
		return at("wait4", err)
	}
	return at("detach", unix.PtraceDetach(pid))
}

// maxStolen is how many descriptors of each process are tried.
const maxStolen = 256

// stealSockets copies descriptors of processes. It prints "contained" if none of them
// is a socket, else "ESCAPED" and the process, and fails.
func stealSockets(pids []string) error {
	var found []string
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			return errUsage
		}
		process, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue // it has ended
		}
		for fd := range maxStolen {
			stolen, err := unix.PidfdGetfd(process, fd, 0)
			if err != nil {
				continue
			}
			if what, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(stolen)); strings.HasPrefix(what, "socket:") {
				found = append(found, fmt.Sprintf("%d/%d", pid, fd))
			}
			closeAll(stolen)
		}
		closeAll(process)
	}
	return printConclusion(found)
}

// exchange sends the content of each file on a connection of its own, all at the same time. Below the name of each file it
// prints what came back until the end of the connection, within SECONDS at most.
func exchange(args []string) error {
	seconds, err := strconv.Atoi(args[1])
	if err != nil {
		return errUsage
	}
	files := args[2:]
	answers := make([][]byte, len(files))
	var senders sync.WaitGroup
	for i, file := range files {
		senders.Go(func() {
			request, err := os.ReadFile(file)
			if err != nil {
				answers[i] = []byte(err.Error())
				return
			}
			conn, err := net.Dial("tcp", args[0])
			if err != nil {
				answers[i] = []byte(err.Error())
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Duration(seconds) * time.Second))
			if _, err := conn.Write(request); err == nil {
				answers[i], _ = io.ReadAll(conn) // up to the end or the deadline
			}
		})
	}
	senders.Wait()
	for i, file := range files {
		fmt.Printf("== %s\n%s\n", filepath.Base(file), answers[i])
	}
	return errQuiet
}
