package unifiedexec

import (
	"regexp"
	"sync"
)

// networkWindow is how many bytes of the newest output are searched: a command that fails prints
// the reason at its end.
const networkWindow = 64 << 10

// networkFailures are messages of programs that cannot find or reach a host: of the C libraries,
// curl and its users (git, cargo), ssh, wget, apt, Node.js, Python, Go, Rust and Java. A refused
// connection is not among them: in a sandbox without network no host can refuse one.
var networkFailures = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)temporary failure in name resolution|name or service not known|no address associated with hostname|` +
		`nodename nor servname provided|network is unreachable|` +
		`could not resolve host|couldn't resolve host|unable to resolve host|temporary failure resolving|failed to connect to \S+ port \d|` +
		`getaddrinfo|EAI_AGAIN|no such host|failed to lookup address information|UnknownHostException`)
})

// networkFailure reports whether the output of a command that has failed reads as if it
// could not use the network.
func networkFailure(output []byte) bool {
	return networkFailures().Match(output[max(0, len(output)-networkWindow):])
}
