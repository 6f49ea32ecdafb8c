package browser

import (
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/console"
)

// The output of a program is shown at the size for which it was printed: the program moves to the end of its line of 30 columns, and
// writes over the character there.
func TestSizeOfOldOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.start(client.Command{Argv: []string{"sh", "-c", `printf 'a\033[999Cb\033[999Dc'; sleep 100000`}, TTY: true, Rows: 10, Cols: 30})
	r.choose("sleep 100000")
	r.wait("the size", `document.querySelector(".size").textContent === "30 × 10"`)
	r.seen("c                            b")
	r.clean()
}

// A program can give its terminal a size that no browser can show.
func TestHugeTerminal(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.start(client.Command{Argv: []string{"sh", "-c", `stty rows 65000 cols 65000; echo huge; sleep 100000`}, TTY: true})
	r.choose("echo huge")
	r.wait("a size", `document.querySelector(".size").textContent === "500 × 500"`)
	r.seen("huge")
	r.clean()
}
