package browser

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/console"
)

// youType is true when the page has control.
const youType = `document.querySelector(".notice").textContent.startsWith("You type")`

func TestTakeOver(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.start(client.Command{Argv: []string{"sh"}, TTY: true, Rows: 20, Cols: 70, Env: map[string]string{"PS1": "ready> ", "ENV": ""}})
	r.choose("sh")
	r.seen("ready>")
	r.wait("the size of the command's terminal", `document.querySelector(".size").textContent === "70 × 20"`)

	// A page that watches types nothing, and answers no question of the terminal.
	r.click(".screen .xterm-rows")
	r.press(0, "z", "z", "z")
	r.click(".button.primary")
	r.wait("control", youType)
	r.frames(2) // the page says its size in the next frame
	r.write("stty size; echo $((6*7))")
	r.seen("42")
	r.wait("its own size", screenText+".includes(document.querySelector('.size').textContent.split(' × ').reverse().join(' '))")
	if r.screen() == "" || eval[bool](r, screenText+`.includes("zzz")`) {
		t.Errorf("the page has typed without control:\n%s", r.screen())
	}

	// The size follows the page that types.
	r.do(chromedp.EmulateViewport(1200, 700))
	r.wait("the viewport", "innerWidth === 1200")
	r.frames(2)
	r.write("clear; stty size")
	r.wait("the new size", screenText+".includes(document.querySelector('.size').textContent.split(' × ').reverse().join(' '))")

	// Everybody who watches sees who types, and may take over.
	other := &rig{t: t, url: r.url, client: r.client}
	other.open(r.url)
	other.choose("sh")
	other.wait("the one who types", `document.querySelector(".notice").textContent === "tether console types into this command."`)
	other.click(".button.primary")
	r.wait("the loss of control", `document.querySelector(".notice").textContent === "tether console types into this command."`)

	other.wait("control", youType)
	other.write("exit 7")
	r.wait("the exit", `document.querySelector(".pill").textContent === "exited 7"`)
	r.clean()
	other.clean()
}

func TestSignals(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.shell(`trap 'echo hung up' HUP; echo ready; while :; do sleep 0.05; done`)
	r.choose("trap")
	r.seen("ready")
	r.click(`[aria-haspopup="menu"]`)
	r.run(`[...document.querySelectorAll(".menu-item")].find((item) => item.textContent.startsWith("SIGHUP")).click()`)
	r.seen("hung up")

	// The end is asked for twice: Cancel has the focus.
	r.click(".toolbar .danger")
	r.wait("the question", `document.activeElement.textContent === "Cancel"`)
	r.press(0, "Enter")
	r.wait("no question", `document.querySelector("dialog") === null`)
	r.click(".toolbar .danger")
	r.click("dialog .danger")
	r.wait("the end", `document.querySelector(".pill").textContent.startsWith("exited")`)
	r.clean()
}
