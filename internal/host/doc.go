// Package host has the rules about hosts on a network: names, forms of addresses, and proxies.
//
//   - name.go: conversion of names to ASCII by IDNA, and which names can be looked up.
//   - ipv4.go: IPv4 addresses in every form that programs accept, such as 127.1 or 0x7f000001.
//   - proxies.go: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY of an environment. They have the same meaning for
//     all connections of this program: HTTP requests, the proxy of a managed network, connections of the client.
//   - tunnel.go: connections through a proxy, by CONNECT or SOCKS5.
//
// Package golang.org/x/net/http/httpproxy reads the same variables, but it never uses a proxy for loopback addresses.
// Clients of the protocol rely on HTTP_PROXY for loopback addresses too.
package host
