package confine

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// openGate configures the listeners of the stage for the gate. Without a gate, the
// network of the command has no connection to the outside.
func (l *launch) openGate(r Request, config *stage.Config) (err error) {
	config.Refusal = r.Refusal
	if r.Gate == nil {
		return nil
	}
	l.gate = r.Gate
	config.Listen, config.Ports = l.gate.Ports()
	l.listens = config.Listen
	config.Outside, err = ownNetwork()
	return err
}

// ownNetwork returns the number of this process's network.
func ownNetwork() (uint64, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(fd)
	return stage.Network(fd)
}

// serve passes the listeners of the stage to the gate. end closes them when the sandbox
// ends, which may be long before the gate is closed: an open listener would keep the
// network alive.
func (l *launch) serve(files []*os.File) (err error) {
	var listeners []net.Listener
	for _, f := range files {
		if err == nil {
			var one net.Listener
			if one, err = net.FileListener(f); err == nil {
				listeners = append(listeners, one)
			}
		}
		f.Close()
	}
	if err == nil && len(listeners) != l.listens {
		err = sandbox.Unenforceable("%d of %d listeners came out of the sandbox", len(listeners), l.listens)
	}
	if err != nil {
		for _, one := range listeners {
			one.Close()
		}
		return fmt.Errorf("take the listeners of the sandbox: %w", err)
	}
	l.listeners = listeners
	l.gate.Serve(listeners)
	return nil
}
