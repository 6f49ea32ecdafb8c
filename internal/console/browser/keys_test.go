package browser

import (
	"testing"

	"github.com/tetherexec/tether/internal/console"
)

// Keys act on what the person sees: not behind a dialog, and not on the command behind a recording.
func TestKeysAndWhatIsSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.shell("echo one; sleep 100000")
	r.choose("echo one")
	r.seen("one")
	r.press(ctrl, "k")
	r.wait("the palette", `document.querySelector("dialog") !== null`)
	r.press(ctrl, "k")
	r.press(ctrl, "f")
	if dialogs := eval[int](r, `document.querySelectorAll("dialog").length`); dialogs != 1 || eval[bool](r, `!document.querySelector(".find").hidden`) {
		t.Errorf("keys in a dialog have opened something: %d dialogs", dialogs)
	}
	r.press(0, "Escape")
	r.wait("no palette", `document.querySelector("dialog") === null`)
	r.press(0, "p")
	r.wait("the recording", `document.querySelector(".player") !== null`)
	r.press(0, "t")
	r.press(0, "Escape")
	r.wait("the command", `document.querySelector(".player") === null`)
	if !eval[bool](r, `document.querySelector(".notice").hidden`) {
		t.Error("a key has taken over the command behind the recording")
	}
	r.clean()
}
