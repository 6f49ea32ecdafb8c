package service

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A Manager is the service manager that has started this process, as its main process. A nil Manager is none; its methods do
// nothing. The server does not depend on whether a message arrives.
type Manager struct {
	socket   int
	address  unix.SockaddrUnix
	interval time.Duration
}

// Find returns the manager of this process; nil: there is none, or it does not want messages.
func Find() *Manager {
	name := os.Getenv(notifySocket)
	if name == "" {
		return nil
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	m := &Manager{socket: socket, address: unix.SockaddrUnix{Name: name}}
	if pid := os.Getenv(watchdogPID); pid == "" || pid == strconv.Itoa(os.Getpid()) {
		if micro, err := strconv.ParseUint(os.Getenv(watchdogTime), 10, 63); err == nil && micro < uint64(maxWatchdog/time.Microsecond) {
			m.interval = time.Duration(micro) * time.Microsecond / 2
		}
	}
	return m
}

// maxWatchdog is the longest time of a watchdog that is respected.
const maxWatchdog = 24 * time.Hour

var (
	alive    = []byte("WATCHDOG=1")
	stopping = []byte("STOPPING=1")
)

// Interval is how often the manager wants to be told that the process is alive; 0: never.
func (m *Manager) Interval() time.Duration {
	if m == nil {
		return 0
	}
	return m.interval
}

// Ready tells the manager that the server serves, and that this is its main process.
func (m *Manager) Ready() { m.send([]byte("READY=1\nMAINPID=" + strconv.Itoa(os.Getpid()))) }

// Alive tells the manager that the process works. It allocates nothing.
func (m *Manager) Alive() { m.send(alive) }

// Stopping tells the manager that the server is ending.
func (m *Manager) Stopping() { m.send(stopping) }

func (m *Manager) send(text []byte) {
	if m != nil {
		_ = unix.Sendto(m.socket, text, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &m.address)
	}
}
