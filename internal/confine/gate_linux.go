package confine

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/inner"
)

// openGate has the stage listen for the gate. Without one, the network of the command
// leads nowhere.
func (l *launch) openGate(r Request, stage *inner.Stage) {
	stage.Refusal = r.Refusal
	if r.Gate == nil {
		return
	}
	l.gate = r.Gate
	l.listens, stage.Ports = l.gate.Ports()
	stage.Listen = l.listens
}

// serve hands the listeners to the gate, after a look at where they are from.
func (l *launch) serve(files []*os.File) error {
	listeners, err := insideListeners(files)
	if err == nil && len(listeners) != l.listens {
		err = sandbox.Unenforceable("%d of %d listeners came out of the sandbox", len(listeners), l.listens)
	}
	if err != nil {
		for _, one := range listeners {
			one.Close()
		}
		return err
	}
	l.gate.Serve(listeners)
	return nil
}

// insideListeners makes listeners of files, and closes these. A network that is ours as
// well would be no network of its own.
func insideListeners(files []*os.File) ([]net.Listener, error) {
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	own, err := ownNetwork()
	if err != nil {
		return nil, err
	}
	var listeners []net.Listener
	for _, f := range files {
		l, err := net.FileListener(f)
		if err != nil {
			return listeners, fmt.Errorf("take a listener from the sandbox: %w", err)
		}
		listeners = append(listeners, l)
		conn, err := l.(*net.TCPListener).SyscallConn()
		if err != nil {
			return listeners, err
		}
		var there uint64
		if cerr := conn.Control(func(fd uintptr) { there, err = network(int(fd)) }); cerr != nil {
			err = cerr
		}
		if err != nil {
			return listeners, err
		}
		if there == own && own != 0 {
			return listeners, sandbox.Unenforceable("the command is in the network of the server")
		}
	}
	return listeners, nil
}

// ownNetwork names the network of this process.
func ownNetwork() (uint64, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(fd)
	return network(fd)
}

// network names the network that a socket is in; 0 on kernels before 5.14, which have
// no name for it.
func network(fd int) (uint64, error) {
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err == unix.ENOPROTOOPT {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at a network: %w", err)
	}
	return cookie, nil
}
