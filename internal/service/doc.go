// Package service is the server's side of a service manager such as systemd: the sockets that the manager has opened for it
// (LISTEN_FDS), and the messages that tell the manager that it is ready, alive or ending (sd_notify, WATCHDOG_USEC).
//
//	manager_linux.go   messages to the manager
//	sockets_unix.go    sockets from the manager
package service
