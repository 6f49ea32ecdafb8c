package browser

import (
	"testing"

	"github.com/tetherexec/tether/internal/console"
)

func TestListAndFollow(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.wait("the empty list", `document.querySelector(".tree-empty")?.hidden === false || document.querySelectorAll(".row.session").length === 1`)
	r.shell(`echo first; echo wrong >&2; read -r line; echo "got $line"`)
	r.choose("echo first")
	r.seen("first")
	r.seen("wrong")
	r.wait("the state", `document.querySelector(".row.command .command-state").textContent.includes("exited 0")`)
	r.seen("got")
	r.wait("the end", `document.querySelector(".mode").textContent === "All of the output"`)
	r.clean()
}
