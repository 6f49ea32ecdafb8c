// Package host has what this program knows about hosts on a network: how they are named, and through which proxy they
// are reached.
//
//   - name.go: names beyond ASCII become ASCII by IDNA, and which names can be looked up.
//   - ipv4.go: IPv4 addresses in every form that programs accept, as 127.1 or 0x7f000001.
//   - proxies.go: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY of an environment. They mean the same for every
//     way out of this program: HTTP requests, the proxy of a managed network, connections of the client.
//   - tunnel.go: connections through a proxy, by CONNECT or SOCKS5.
//
// Package golang.org/x/net/http/httpproxy reads the same variables, but it never uses a proxy for loopback addresses.
// Clients of the protocol rely on HTTP_PROXY for those too.
package host
