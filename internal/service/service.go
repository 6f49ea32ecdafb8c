package service

import "os"

// Variables by which a service manager speaks to its services.
const (
	notifySocket  = "NOTIFY_SOCKET"
	watchdogTime  = "WATCHDOG_USEC"
	watchdogPID   = "WATCHDOG_PID"
	listenPID     = "LISTEN_PID"
	listenCount   = "LISTEN_FDS"
	listenNames   = "LISTEN_FDNAMES"
	firstListenFD = 3
)

// Forget removes the variables about messages from the environment: the commands of a server must not speak to its manager.
func Forget() {
	for _, name := range []string{notifySocket, watchdogTime, watchdogPID} {
		os.Unsetenv(name)
	}
}
