package browser

import (
	"os"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/console"
)

// The page breaks no rule of axe-core, in both colour schemes, with each of its parts open.
func TestAccessibility(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile("../web/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, console.Config{})
	r.run(string(axe))
	check := func(part string) {
		t.Helper()
		for _, broken := range eval[[]string](r, `(async () => {
			const { violations } = await axe.run();
			return violations.flatMap((v) => v.nodes.map((n) => v.id + ": " + n.html + " " + n.failureSummary));
		})()`) {
			t.Errorf("%s: %s", part, broken)
		}
	}
	check("the empty page")
	r.shell(`echo one; echo two >&2; sleep 100000`)
	r.start(client.Command{Argv: []string{"sh", "-c", "exit 3"}})
	r.choose("echo one")
	r.seen("two")
	for _, scheme := range []string{"light", "dark"} {
		r.scheme(scheme)
		text := map[string]string{"light": "rgb(36, 41, 47)", "dark": "rgb(223, 228, 230)"}[scheme]
		r.wait("the colours of the terminal", `getComputedStyle(document.querySelector(".xterm-rows")).color === "`+text+`"`)
		check(scheme)
		r.press(0, "f")
		r.wait("the search", `document.activeElement.classList.contains("find-input")`)
		r.write("o")
		r.wait("results", `document.querySelectorAll(".find-result").length > 1`)
		check(scheme + " search")
		r.press(0, "Escape")
		r.click(`[aria-haspopup="menu"]`)
		r.wait("the menu", `document.querySelector(".menu") !== null`)
		check(scheme + " menu")
		r.click(`[aria-haspopup="menu"]`) // closes it
		r.wait("no menu", `document.querySelector(".menu") === null`)
		r.press(ctrl, "k")
		r.wait("the palette", `document.querySelector("dialog") !== null`)
		check(scheme + " palette")
		r.press(0, "Escape")
		r.wait("no palette", `document.querySelector("dialog") === null`)
		r.run(`document.querySelector("#help").click()`)
		check(scheme + " keys")
		r.press(0, "Escape")
		r.wait("no keys", `document.querySelector("dialog") === null`)
		r.click(".button.primary")
		r.wait("control", youType)
		check(scheme + " typing")
		r.click(".button.primary")
		r.wait("no control", `document.querySelector(".notice").hidden`)
	}
	r.clean()
}
