//go:build unix && race

package server_test

// outageSeconds is shorter where the race detector makes the client of the test
// slower than the output.
const outageSeconds = 1
