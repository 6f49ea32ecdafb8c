//go:build interop

package interop_test

import (
	"os"
	"testing"
)

// maxProgram is the limit for the program, which has little less. docs/performance.md says what makes a program larger, and how
// to find it.
const maxProgram = 12 << 20

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
