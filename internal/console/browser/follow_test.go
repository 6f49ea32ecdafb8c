package browser

import (
	"fmt"
	"testing"

	"github.com/tetherexec/tether/internal/console"
)

func TestListAndFollow(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.wait("the list", `document.querySelectorAll(".row.session").length === 1`)
	p := r.shell(`echo first; echo wrong >&2; kill -STOP $$; echo last`)
	r.choose("echo first")
	r.seen("first")
	r.seen("wrong")
	r.wait("the state", `document.querySelector(".row.command .command-state").textContent.startsWith("stopped")`)
	r.wait("the facts", `document.querySelector("#facts").textContent.includes("build agent")`)
	if err := p.Signal(t.Context(), "SIGCONT"); err != nil {
		t.Fatal(err)
	}
	r.seen("last")
	r.wait("the end", `document.querySelector(".mode").textContent === "All of the output"`)
	r.wait("the exit", `document.querySelector(".row.command .command-state").textContent === "exited 0"`)

	// Standard error is told apart, and by itself.
	if style := eval[string](r, `getComputedStyle([...document.querySelectorAll(".xterm-rows span")].find((s) => s.textContent === "wrong")).fontStyle`); style != "italic" {
		t.Errorf("standard error is %s", style)
	}
	r.click(`[data-stream="stderr"]`)
	r.wait("standard error alone", screenText+`.trim() === "wrong"`)
	r.clean()
}

// bigLines is how many lines of 51 bytes TestWholeLog has: 51 MB.
const bigLines = 1_000_000

func TestWholeLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.shell(fmt.Sprintf(`seq -f 'line %%08.0f of a log that is rather long, as logs are' 1 %d`, bigLines))
	r.choose("seq -f")
	line := func(n int) string { return fmt.Sprintf("line %08d of", n) }
	r.seen(line(bigLines))

	// Up by pages of the log: nothing is left out where they meet.
	first := `Number((/line (\d+)/.exec(` + screenText + `) ?? [])[1])`
	const idle = ` && document.querySelector(".screen").ariaBusy === "false"`
	top := waitFor[int](r, "a line", first)
	for pages := 0; top > bigLines-10_000; pages++ {
		if pages == 10 {
			t.Fatalf("after ten pages, the page is at line %d", top)
		}
		r.wait("a place to scroll from", `document.querySelector(".xterm-viewport").scrollTop > 0`+idle)
		r.wheel(-1e7)
		r.wait("older output", first+" < "+fmt.Sprint(top)+idle)
		top = waitFor[int](r, "a line", first)
		r.consecutive()
	}
	r.seen("line")

	// The first byte, and down from there.
	r.click(".screen .xterm-rows")
	r.press(0, "Home")
	r.seen(line(1))
	if got := waitFor[int](r, "a line", first); got != 1 {
		t.Errorf("the log begins with line %d", got)
	}
	r.wheel(1e7)
	r.wait("newer output", first+" > 2000"+idle)
	r.consecutive()

	// Search in all of it, and jump.
	r.press(0, "f")
	r.wait("the search", `document.activeElement.classList.contains("find-input")`)
	r.write("00500000 OF")
	r.seen(line(500_000))
	r.consecutive()
	r.wait("the count", `document.querySelector(".find-count").textContent.startsWith("1 of 1")`) // + on a machine that needs 10 s for the search
	r.press(0, "Escape")
	r.click(".status .button")
	r.seen(line(bigLines))
	if lines := eval[int](r, `document.querySelectorAll(".xterm-rows > div").length`); lines > 200 {
		t.Errorf("the page has %d lines of a terminal", lines)
	}
	r.clean()
}

// consecutive checks that the lines on the screen follow each other. The page empties the terminal before it shows another part of
// the log, so the check waits for a screen with lines.
func (r *rig) consecutive() {
	r.t.Helper()
	verdict := waitFor[string](r, "a screen of lines", `(() => {
		const lines = [...`+screenText+`.matchAll(/line (\d{8}) of/g)].map((m) => Number(m[1]));
		const at = lines.findIndex((n, i) => i > 0 && n !== lines[i - 1] + 1);
		if (lines.length <= 10) return "";
		return at < 0 ? "consecutive" : at + " of " + lines.slice(Math.max(0, at - 3), at + 3).join(" ");
	})()`)
	if verdict != "consecutive" {
		r.t.Errorf("the lines do not follow each other: %s", verdict)
	}
}

// Colours of programs need inline styles, which the page's policy forbids: xterm.js has to set them in another way.
func TestColours(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.shell(`printf '\033[38;2;1;130;3mgreen\033[0m \033[48;2;200;0;0mred\033[0m\n'`)
	r.choose("printf")
	r.seen("green red")
	colour := eval[string](r, `getComputedStyle([...document.querySelectorAll(".xterm-rows span")].find((s) => s.textContent === "green")).color`)
	if colour != "rgb(1, 130, 3)" {
		t.Errorf("the colour is %s", colour)
	}
	r.clean()
}
