// Package listen is the door of a server: it listens on a TCP port or a Unix socket, speaks TLS, checks who may connect,
// answers health checks, and hands each WebSocket connection to a [Handler]. It knows nothing of what is spoken afterwards,
// so the exec server and the app-server share it.
//
// It promises that a socket file is private from its first moment on, that an address which other machines can reach is
// refused unless clients authenticate, and that clients which connect and say nothing cannot use up the server.
//
// Its errors tell what is wrong with a [Config]; the program that has flags names them.
//
//   - config.go: the settings and their checks; auth.go, tls.go: tokens and certificates
//   - listen.go: URLs and listeners; socket*.go: what differs between platforms; lock.go: one server per socket file
//   - in_process.go, pair_*.go: a listener without an address, for one process
//   - serve.go: the connections of a server, how many there may be, and their end; idle.go: the end of an unused server
//   - upgrade.go: HTTP: the health checks, and the upgrade to WebSocket; metrics.go: /metrics
//   - self.go: whether an address is that of this server
package listen
