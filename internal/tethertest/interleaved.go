package tethertest

import (
	"fmt"
	"strings"
)

// An Interleaving is a shell script that prints lines on standard output and standard error in turn, with the expected output.
type Interleaving struct {
	Script         string
	Both           string // through one stream
	Stdout, Stderr string // through two
}

// Interleaved makes a script that prints n lines on each stream.
func Interleaved(n int) Interleaving {
	var both, stdout, stderr strings.Builder
	for i := range n {
		fmt.Fprintf(&stdout, "o%d\n", i+1)
		fmt.Fprintf(&stderr, "e%d\n", i+1)
		fmt.Fprintf(&both, "o%d\ne%d\n", i+1, i+1)
	}
	return Interleaving{
		Script: fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); echo o$i; echo e$i >&2; done", n),
		Both:   both.String(), Stdout: stdout.String(), Stderr: stderr.String(),
	}
}

// Split returns the lines of each stream in output that has both, in any order.
func (Interleaving) Split(output string) (stdout, stderr string) {
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "e") {
			stderr += line
		} else {
			stdout += line
		}
	}
	return stdout, stderr
}
