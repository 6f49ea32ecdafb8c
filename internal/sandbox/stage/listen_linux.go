package stage

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// backlog is how many connections of a command may wait to be accepted.
const backlog = 128

// listen opens the listeners and writes their ports into the command's
// environment.
func (s *Config) listen() ([]int, error) {
	var listeners, ports []int
	for range s.Listen {
		fd, port, err := listenLoopback()
		if err != nil {
			return nil, fmt.Errorf("listen inside: %w", err)
		}
		network, err := Network(fd)
		if err != nil {
			return nil, err
		}
		if network == s.Outside && network != 0 {
			return nil, errors.New("it is in the network of the server")
		}
		listeners, ports = append(listeners, fd), append(ports, port)
	}
	return listeners, s.SetPorts(ports)
}

// SetPorts writes the port numbers of the listeners into the command's environment.
func (s *Config) SetPorts(ports []int) error {
	for _, p := range s.Ports {
		at := slices.IndexFunc(s.Env, func(entry string) bool { return strings.HasPrefix(entry, p.Variable+"=") })
		if at < 0 {
			return fmt.Errorf("there is no variable %s", p.Variable)
		}
		s.Env[at] = p.Variable + "=" + p.Prefix + strconv.Itoa(ports[p.Listener]) + p.Suffix
	}
	return nil
}

// listenLoopback listens on a port that the kernel chooses.
func listenLoopback() (fd, port int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, 0, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return -1, 0, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return -1, 0, err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return -1, 0, err
	}
	return fd, name.(*syscall.SockaddrInet4).Port, nil
}

// Network returns the kernel's number for the network namespace of a socket; 0 on
// kernels before 5.14, which do not have one.
func Network(socket int) (uint64, error) {
	cookie, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err == unix.ENOPROTOOPT {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at a network: %w", err)
	}
	return cookie, nil
}
