//go:build !linux

// Command bench measures tether beside the reference server. It reads the CPU
// time of servers from /proc.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: only works on Linux")
	os.Exit(1)
}
