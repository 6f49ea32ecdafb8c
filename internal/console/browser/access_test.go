package browser

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"

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
	r.start(client.Command{Argv: []string{"sh", "-c", "echo three; exit 3"}})
	r.choose("echo one")
	r.seen("two")
	for _, scheme := range []string{"light", "dark"} {
		r.scheme(scheme)
		text := map[string]string{"light": "rgb(36, 41, 47)", "dark": "rgb(223, 228, 230)"}[scheme]
		r.wait("the colours of the terminal", `getComputedStyle(document.querySelector(".xterm-rows")).color === "`+text+`"`)
		check(scheme)
		for _, view := range accessViews {
			view.open(r)
			check(scheme + " " + view.name)
			view.close(r)
		}
	}
	r.do(chromedp.EmulateViewport(400, 760))
	for _, column := range []string{"list", "terminal", "facts"} {
		r.run(`document.querySelector('#tabs [data-column="` + column + `"]').click()`)
		check("narrow " + column)
		if wide := eval[int](r, "document.documentElement.scrollWidth"); wide > 400 {
			t.Errorf("the narrow page with its %s is %d pixels wide", column, wide)
		}
	}
	r.clean()

	out := &rig{t: t, url: r.url, client: r.client}
	out.page = out.newTab()
	out.visit(r.url, "forged")
	out.wait("the refusal", turnedOff)
	out.run(string(axe))
	r = out
	check("without a login")
	r.clean()
}

// accessViews are the parts of the page that open and close.
var accessViews = []struct {
	name        string
	open, close func(*rig)
}{
	{"search", func(r *rig) {
		r.press(0, "f")
		r.wait("the search", `document.activeElement.classList.contains("find-input")`)
		r.write("o")
		r.wait("results", `document.querySelectorAll(".find-result").length > 1`)
	}, func(r *rig) { r.press(0, "Escape") }},
	{"menu", func(r *rig) {
		r.click(`[aria-haspopup="menu"]`)
		r.wait("the menu", `document.querySelector(".menu") !== null`)
	}, func(r *rig) {
		r.click(`[aria-haspopup="menu"]`)
		r.wait("no menu", `document.querySelector(".menu") === null`)
	}},
	{"palette", func(r *rig) {
		r.press(ctrl, "k")
		r.wait("the palette", `document.querySelector("dialog") !== null`)
	}, closeDialog},
	{"keys", func(r *rig) { r.run(`document.querySelector("#help").click()`) }, closeDialog},
	{"question", func(r *rig) { r.click(".toolbar .danger") }, closeDialog},
	{"typing", func(r *rig) {
		r.click(".button.primary")
		r.wait("control", youType)
	}, func(r *rig) {
		r.click(".button.primary")
		r.wait("no control", `document.querySelector(".notice").hidden`)
	}},
	{"recording", func(r *rig) {
		r.run(`document.querySelector("#list .tree").focus()`)
		r.press(0, "p")
		r.wait("the recording", `document.querySelector(".player") !== null`)
	}, func(r *rig) {
		r.click(".player .toolbar .button")
		r.wait("the command", `document.querySelector(".player") === null`)
	}},
}

func closeDialog(r *rig) {
	r.press(0, "Escape")
	r.wait("no dialog", `document.querySelector("dialog") === null`)
}
