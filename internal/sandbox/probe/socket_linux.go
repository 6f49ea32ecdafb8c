package probe

import (
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// connectSeconds bounds a TCP connect.
const connectSeconds = 5

var socketProbes = []probe{
	{"socket", "DOMAIN TYPE", func(a []string) error { return socket(a, 0) }},
	{"socket-high", "DOMAIN TYPE", func(a []string) error { return socket(a, highGarbage) }},
	{"socketpair", "DOMAIN", socketpair},
	{"connect-tcp", "ADDR:PORT", connectTCP},
	{"send-udp", "ADDR:PORT", sendUDP},
	{"listen-tcp", "ADDR:PORT", listenTCP},
}

var domains = map[string]uint64{
	"unix": unix.AF_UNIX, "inet": unix.AF_INET, "inet6": unix.AF_INET6, "netlink": unix.AF_NETLINK,
	"packet": unix.AF_PACKET, "vsock": unix.AF_VSOCK, "alg": unix.AF_ALG, "bluetooth": unix.AF_BLUETOOTH,
}

var socketTypes = map[string]uintptr{
	"stream": unix.SOCK_STREAM, "dgram": unix.SOCK_DGRAM, "raw": unix.SOCK_RAW, "seqpacket": unix.SOCK_SEQPACKET,
}

// highGarbage goes in the upper half of a register whose lower half the kernel
// looks at. A filter that compares all of it is dodged by this.
const highGarbage uint64 = 0xdeadbeef << 32

func domain(text string) (uint64, error) {
	if d, ok := domains[text]; ok {
		return d, nil
	}
	d, err := strconv.ParseUint(text, 0, 31)
	if err != nil {
		return 0, errUsage
	}
	return d, nil
}

// socket makes one, by the raw call: the wrapper would cut the register.
func socket(args []string, high uint64) error {
	d, err := domain(args[0])
	if err != nil {
		return err
	}
	typ, ok := socketTypes[args[1]]
	if !ok {
		return errUsage
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(d|high), typ|unix.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func socketpair(args []string) error {
	d, err := domain(args[0])
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(int(d), unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	closeAll(pair[:]...)
	return nil
}

// inetAddr is ADDR:PORT as the kernel wants it. Names are not looked up.
func inetAddr(text string) (int, unix.Sockaddr, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return 0, nil, errUsage
	}
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}, nil
}

// inetSocket is a socket for ADDR:PORT.
func inetSocket(text string, typ int) (int, unix.Sockaddr, error) {
	family, addr, err := inetAddr(text)
	if err != nil {
		return -1, nil, err
	}
	fd, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC, 0)
	return fd, addr, at("socket", err)
}

func connectTCP(args []string) error {
	fd, addr, err := inetSocket(args[0], unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// Without this a connect may take minutes. Where it is refused, they are taken.
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: connectSeconds})
	err = unix.Connect(fd, addr)
	if err == unix.EINPROGRESS {
		err = unix.ETIMEDOUT
	}
	return err
}

// sendUDP sends one byte. That it arrives is for the other side to say.
func sendUDP(args []string) error {
	fd, addr, err := inetSocket(args[0], unix.SOCK_DGRAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("p"), 0, addr)
}

func listenTCP(args []string) error {
	fd, err := listener(args[0])
	unix.Close(fd)
	return err
}

// listener returns a socket, which listens if there is no error.
func listener(address string) (int, error) {
	fd, addr, err := inetSocket(address, unix.SOCK_STREAM)
	if err != nil {
		return fd, err
	}
	if err := unix.Bind(fd, addr); err != nil {
		return fd, at("bind", err)
	}
	return fd, unix.Listen(fd, 1)
}

func closeAll(fds ...int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // nobody waits for what was written
	}
}
