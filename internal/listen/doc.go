// Package listen is the door of a server: it listens on a TCP port or a Unix socket, speaks TLS, checks who may connect,
// answers health checks, and hands each upgraded WebSocket connection on. It knows nothing of what is spoken afterwards,
// so the exec server and the app-server share it.
//
// It promises that a socket file is private from its first moment on, that an address which other machines can reach is
// refused unless clients authenticate, and that clients which connect and say nothing cannot use up the server.
//
//   - config.go, listen.go: settings and their checks; the listeners; socket*.go has what differs between platforms
//   - in_process.go, pair_*.go: a listener without an address, for one process
//   - upgrade.go: HTTP: the health checks, and the upgrade to WebSocket; metrics.go: /metrics
//   - auth.go, tls.go: tokens and certificates
//   - self.go: whether an address is that of this server
package listen
