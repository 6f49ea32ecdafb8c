package browser

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// The page loses its connection for 3 s while output goes on: the terminal has each byte once, as the log does.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	c := tethertest.LayCable(t, nowhere)
	r := newServerBehind(t, c, console.Config{})
	r.open(c.URL())
	gate := filepath.Join(t.TempDir(), "gate")
	p := r.shell(fmt.Sprintf(`i=0; while [ $i -lt 450 ]; do
		i=$((i+1)); echo "line $i of them"; [ $((i %% 10)) != 0 ] || sleep 0.1
		while [ $i = 20 ] && [ ! -e %s ]; do sleep 0.02; done
	done`, gate))
	r.choose("line $i")
	r.seen("line 20 of")
	c.Cut()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.wait("the banner", `document.querySelector("#banner").hidden === false && document.querySelector("#banner").textContent.includes("Commands go on")`)
	if white := r.screen(); !strings.Contains(white, "line 20 of") {
		t.Errorf("without a connection the terminal shows\n%s", white)
	}
	const words = `[...document.querySelectorAll("#banner > span > :not([aria-hidden])")].map((e) => e.textContent).join()`
	if read := eval[string](r, words); !strings.HasSuffix(read, "Trying again") {
		t.Errorf("a screen reader reads %q, and again each second", read)
	}
	r.wait("three seconds", `/for \d+ s/.test(document.querySelector("#banner").textContent)`)
	c.Mend()
	r.wait("the connection", `document.querySelector("#banner").hidden`)
	r.wait("the end", `document.querySelector(".mode").textContent === "All of the output"`)
	r.seen("line 450 of")
	r.frames(4) // xterm.js ignores the next scroll event after it has scrolled itself
	if want, got := string(r.log(p.Stdout())), r.whole(); got != want {
		t.Errorf("the terminal has\n%s\nthe log has\n%s", got, want)
	}
	r.clean()
}

func (r *rig) log(from io.Reader) []byte {
	r.t.Helper()
	all, err := io.ReadAll(from)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// whole reads the terminal from the top to the bottom, screen by screen. No screen looks like the one before it, so it waits for the
// terminal to draw each of them.
func (r *rig) whole() string {
	r.t.Helper()
	r.click(".screen .xterm-rows")
	const row = `document.querySelector(".xterm-rows > div").getBoundingClientRect().height`
	height := waitFor[int](r, "a terminal of the size of its place, which grows when the buttons for a running command leave", `(() => {
		const rows = document.querySelectorAll(".xterm-rows > div").length;
		const place = document.querySelector(".screen").clientHeight - 12;
		return document.querySelector(".without-control") && rows === Math.floor(place / `+row+`) ? rows : 0;
	})()`)
	total := height + eval[int](r, `Math.round((document.querySelector(".xterm-scroll-area").clientHeight - document.querySelector(".xterm-viewport").clientHeight) / `+row+`)`)
	rows := make([]string, total)
	last, key := r.screen(), "Home"
	for top := 0; ; top = min(top+height-1, total-height) {
		r.press(0, key)
		quoted, _ := json.Marshal(last)
		r.wait("another part of the terminal", fmt.Sprintf("%s !== %s", screenText, quoted))
		last, key = r.screen(), "PageDown"
		copy(rows[top:], strings.Split(last, "\n"))
		if top >= total-height {
			break
		}
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n") + "\n"
}

// A server that has lost the session, or the browser, does not leave a white page.
func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	c := tethertest.LayCable(t, nowhere)
	first := newServerBehind(t, c, console.Config{})
	first.open(c.URL())
	first.shell("echo hello; sleep 100000")
	first.choose("echo hello")
	first.seen("hello")
	newServerBehind(t, c, console.Config{})
	c.Sever()
	first.wait("the other server", `document.querySelector("#lamp").textContent === "signed out"`)
	first.seen("hello")
	if text := eval[string](first, "document.body.innerText"); !strings.Contains(text, "tether console") {
		t.Errorf("the page does not say what to do:\n%s", text)
	}
	first.clean()
}

func TestSessionEndsWhileWatched(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.shell("echo hello; sleep 100000")
	r.choose("echo hello")
	r.seen("hello")
	if err := r.client.Call(t.Context(), client.Idempotent, wire.MethodSessionEnd, wire.SessionEndParams{}, &wire.SessionEndResult{}); err != nil {
		t.Fatal(err)
	}
	r.wait("the end", `document.querySelector(".mode").textContent.includes("no longer on the server")`)
	r.seen("hello")
	r.clean()
}

// Ten thousand commands: only the rows that are seen exist, and the last one can be reached.
func TestManyCommands(t *testing.T) {
	t.Parallel()
	c := tethertest.LayCable(t, nowhere)
	r := newServerBehind(t, c, console.Config{})
	r.shell("sleep 100000")
	const many = 10_000
	c.On(cable.FromServer, cable.Answer("tether/process/list").Always(), cable.Amend(func(members map[string]any) {
		result := members["result"].(map[string]any)
		one := result["processes"].([]any)[0].(map[string]any)
		all := make([]any, many)
		for i := range all {
			copied := map[string]any{}
			for name, value := range one {
				copied[name] = value
			}
			copied["processId"], copied["argv"], copied["startedAtMs"] = fmt.Sprint("p", i), []string{"number", fmt.Sprint(i)}, many-i
			copied["pid"] = 1 // the filter finds numbers of processes, too
			all[i] = copied
		}
		result["processes"] = all
	}))
	r.open(c.URL())
	r.wait("the total", `document.querySelector(".list-total").textContent === "10000 of 10000 running"`)
	r.run(`document.querySelector(".tree").focus()`)
	r.press(0, "End")
	r.wait("the last", `document.querySelector(".row.active")?.textContent.includes("number 9999")`)
	if rows := eval[int](r, `document.querySelectorAll(".row").length`); rows > 60 {
		t.Errorf("the page has %d rows", rows)
	}
	frames := eval[[]float64](r, `(async () => {
		const tree = document.querySelector(".tree"), frames = [];
		tree.scrollTop = 0;
		await new Promise(requestAnimationFrame);
		for (let i = 0, before = performance.now(); i < 120; i++) {
			tree.scrollTop += 500;
			await new Promise(requestAnimationFrame);
			frames.push(performance.now() - before);
			before = performance.now();
		}
		return frames.sort((a, b) => a - b);
	})()`)
	t.Logf("scrolling: a frame takes %.0f ms (median), %.0f ms (9 of 10)", frames[len(frames)/2], frames[len(frames)*9/10])
	if tethertest.Soak() && frames[len(frames)/2] > mostFrame {
		t.Error("the list does not scroll smoothly")
	}
	r.press(0, "/")
	r.wait("the filter", `document.activeElement.classList.contains("filter")`)
	r.write("number 4711")
	r.wait("one row", `document.querySelectorAll(".row.command").length === 1`)
	r.clean()
}
