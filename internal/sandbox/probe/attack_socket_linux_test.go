package probe

import (
	"golang.org/x/sys/unix"
)

var socketAttacks = []probe{
	{"socket-high", "DOMAIN TYPE", socketHigh},
	{"socketpair", "DOMAIN", socketpair},
	{"send-udp", "ADDR:PORT", sendUDP},
	{"listen-tcp", "ADDR:PORT", listenTCP},
}

// highGarbage is for the upper half of a register whose lower half the kernel
// uses. It bypasses a filter that compares the whole register.
const highGarbage uint64 = 0xdeadbeef << 32

func socketHigh(args []string) error {
	d, err := domain(args[0])
	if err != nil {
		return err
	}
	return openSocket(d|highGarbage, args[1])
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

// sendUDP sends one byte. It does not know whether the byte arrives.
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
