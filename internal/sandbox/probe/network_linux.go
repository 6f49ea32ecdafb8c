package probe

import (
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

var networkProbes = []probe{
	{"socket", "DOMAIN TYPE", socket},
	{"connect-tcp", "ADDR:PORT", connectTCP},
	{"connect-unix", "PATH", func(a []string) error { return connectUnix(a[0]) }},
}

// connectSeconds bounds a TCP connect.
const connectSeconds = 5

var domains = map[string]uint64{
	"unix": unix.AF_UNIX, "inet": unix.AF_INET, "inet6": unix.AF_INET6, "netlink": unix.AF_NETLINK,
	"packet": unix.AF_PACKET, "vsock": unix.AF_VSOCK, "alg": unix.AF_ALG, "bluetooth": unix.AF_BLUETOOTH,
}

var socketTypes = map[string]uintptr{
	"stream": unix.SOCK_STREAM, "dgram": unix.SOCK_DGRAM, "raw": unix.SOCK_RAW, "seqpacket": unix.SOCK_SEQPACKET,
}

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

func socket(args []string) error {
	d, err := domain(args[0])
	if err != nil {
		return err
	}
	return openSocket(d, args[1])
}

// openSocket opens a socket and closes it. It makes the raw call, because the wrapper
// passes only the lower half of the domain's register.
func openSocket(domain uint64, typeName string) error {
	typ, ok := socketTypes[typeName]
	if !ok {
		return errUsage
	}
	fd, _, errno := unix.RawSyscall(unix.SYS_SOCKET, uintptr(domain), typ|unix.SOCK_CLOEXEC, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

// inetAddr returns ADDR:PORT in the kernel's form. Names are not looked up.
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

// inetSocket returns a socket for ADDR:PORT.
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
	// Without this option a connect may take minutes. If the option is refused, the
	// probe waits that long.
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: connectSeconds})
	err = unix.Connect(fd, addr)
	if err == unix.EINPROGRESS {
		err = unix.ETIMEDOUT
	}
	return err
}

// unixSocket returns a socket, and the address of path; "@" begins an abstract
// name.
func unixSocket(path string, typ int) (int, *unix.SockaddrUnix, error) {
	fd, err := unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	return fd, &unix.SockaddrUnix{Name: path}, at("socket", err)
}

func connectUnix(path string) error {
	fd, addr, err := unixSocket(path, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, addr)
}
