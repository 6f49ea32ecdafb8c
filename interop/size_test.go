//go:build interop

package interop_test

import (
	"os"
	"testing"
)

// maxProgram is a little more than the program has. A larger step, such as a large dependency or a flag that
// scripts/build has lost, is worth a look at docs/performance.md.
const maxProgram = 25 << 19 // 12.5 MiB

// The program that `make build` makes does not grow by accident.
func TestSizeOfTheProgram(t *testing.T) {
	t.Parallel()
	name := os.Getenv("TETHER_BIN")
	if name == "" {
		t.Skip("TETHER_BIN does not name the program of `make build`")
	}
	program, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if program.Size() > maxProgram {
		t.Errorf("%s has %d bytes, more than %d", name, program.Size(), maxProgram)
	}
}
