//go:build unix && !race

package server_test

// outageSeconds is how long the client has no connection while output is printed.
const outageSeconds = 3
