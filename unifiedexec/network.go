package unifiedexec

import (
	"regexp"
	"sync"
)

// networkWindow is how much of the newest output is looked at, in bytes: a command that
// fails says why at its end.
const networkWindow = 64 << 10

// networkFailures are what programs print that cannot find or reach a host: the C
// libraries, curl and what uses it (git, cargo), ssh, wget, apt, Node.js, Python, Go, Rust and
// Java. A refused connection is not among them: a sandbox without network has nothing that
// could refuse one.
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
