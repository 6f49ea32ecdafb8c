// Package listen accepts the clients of a server: it listens on a TCP port or a Unix socket, speaks TLS, authenticates
// clients, answers health checks, and hands each WebSocket connection to a [Handler]. It knows nothing of the messages
// on that connection, so the exec server and the app-server share it.
//
// It promises that a socket file is private from the moment it exists, that an address which other machines can reach
// is refused unless clients authenticate, and that clients which connect and send nothing cannot use up the server.
//
// Its errors describe problems of a [Config] without naming flags. The program that has the flags adds their names.
//
// Where a change belongs:
//
//   - config.go: the settings and their checks; auth.go, tls.go: tokens and certificates; access.go: those in force; client.go: which client it is
//   - listen.go: URLs and listeners; socket_*.go: socket files on each platform; lock.go: one server per socket file
//   - in_process.go, pair_*.go: a listener without an address, for one process
//   - serve.go: the clients of a listener; connections.go: the connections of a server, their limit, and their end, also of those that do not come
//     from a listener; idle.go: the end of an unused server
//   - upgrade.go: HTTP: the health checks, and the upgrade to WebSocket; page.go: pages such as /metrics
//   - console.go: browsers that use the console
//   - self.go: whether a connection to an address would reach this server
package listen
