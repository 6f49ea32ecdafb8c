package confine

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// openGate has the stage listen for the gate. Without one, the network of the command
// leads nowhere.
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

// ownNetwork names the network of this process.
func ownNetwork() (uint64, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(fd)
	return stage.Network(fd)
}

// serve hands the listeners of the stage to the gate. They are closed when nothing is
// left in their network, which may be long before the gate is: it would keep the network.
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
