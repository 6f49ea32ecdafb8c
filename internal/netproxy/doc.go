// Package netproxy connects a managed network with the outside: an HTTP and a SOCKS5
// proxy that serve one process and reach only the hosts that its rules allow. The rules
// are in package netpolicy.
//
// Where a change belongs:
//
//   - proxy.go: a Proxy, its limits, its connections and their end.
//   - dial.go: one decision: rules, question to the client, addresses, report, connection.
//   - upstream.go: the proxies of the server's own environment, which package host reads.
//   - http.go, answer.go: requests in absolute form and CONNECT, and refusals in HTTP.
//   - socks.go, socks_udp.go, socks_wire.go: SOCKS5 with connections and datagrams.
//   - relay.go: bytes between two connections.
//   - endpoints.go, gate.go, environ.go: where a process finds its proxies.
//   - loglimit.go: how many log lines a process can cause.
//
// Promises: only an address that the rules have allowed is dialled; without a clear
// answer to a question the host is refused; Close ends everything and waits for it.
package netproxy
