//go:build unix

package service

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSockets limits how many sockets a manager may hand over.
const maxSockets = 256

// ErrNoSocket means that no service manager has handed a socket to this process.
var ErrNoSocket = errors.New("no service manager has handed a socket to this process: LISTEN_FDS is not set for it")

// Socket returns the listening socket that the manager has handed over with a name. Without a name there must be just one. The variables about
// sockets are removed from the environment, and the other sockets are closed: commands must get neither.
func Socket(name string) (*os.File, error) {
	count, names, err := handedOver()
	for _, variable := range []string{listenPID, listenCount, listenNames} {
		os.Unsetenv(variable)
	}
	if err != nil {
		return nil, err
	}
	for i := range count {
		syscall.CloseOnExec(firstListenFD + i)
	}
	chosen, err := choose(count, names, name)
	for i := range count {
		if i != chosen || err != nil {
			syscall.Close(firstListenFD + i)
		}
	}
	if err != nil {
		return nil, err
	}
	fd := firstListenFD + chosen
	if err := checkListening(fd); err != nil {
		syscall.Close(fd)
		return nil, fmt.Errorf("descriptor %d from the service manager: %w", fd, err)
	}
	return os.NewFile(uintptr(fd), "socket of the service manager"), nil
}

// handedOver returns how many sockets there are, from firstListenFD on, and their names.
func handedOver() (count int, names []string, err error) {
	if os.Getenv(listenPID) != strconv.Itoa(os.Getpid()) || os.Getenv(listenCount) == "" {
		return 0, nil, ErrNoSocket
	}
	count, err = strconv.Atoi(os.Getenv(listenCount))
	switch {
	case err != nil || count < 0 || count > maxSockets:
		return 0, nil, fmt.Errorf("LISTEN_FDS is %q, not a number of sockets from 1 to %d", os.Getenv(listenCount), maxSockets)
	case count == 0:
		return 0, nil, ErrNoSocket
	}
	return count, strings.Split(os.Getenv(listenNames), ":"), nil
}

func choose(count int, names []string, name string) (int, error) {
	switch {
	case name == "" && count == 1:
		return 0, nil
	case name == "":
		return 0, fmt.Errorf("the service manager has handed over %d sockets (%s): name one of them", count, strings.Join(names, ", "))
	}
	i := slices.Index(names, name)
	if i < 0 || i >= count {
		return 0, fmt.Errorf("the service manager has handed over no socket with the name %q, but %s", name, strings.Join(names, ", "))
	}
	if slices.Contains(names[i+1:], name) {
		return 0, fmt.Errorf("the service manager has handed over two sockets with the name %q: give each a FileDescriptorName of its own", name)
	}
	return i, nil
}

// checkListening refuses what is not a stream socket that listens.
func checkListening(fd int) error {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return fmt.Errorf("not a socket: %w", err)
	}
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return err
	}
	if kind != unix.SOCK_STREAM || listening == 0 {
		return errors.New("not a stream socket that listens; use ListenStream= without Accept=yes in the socket unit")
	}
	return nil
}
