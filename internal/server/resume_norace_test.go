//go:build unix && !race

package server_test

// outageSeconds is how long the connection is away while output flows.
const outageSeconds = 3
