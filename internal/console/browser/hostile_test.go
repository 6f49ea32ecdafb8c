package browser

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/console"
)

// hostile is output that no program should print: all sequences that a terminal could obey, and many that are broken.
func hostile() []byte {
	var b bytes.Buffer
	for _, sequence := range []string{
		"\x1b]52;c;c3RvbGVu\x07", "\x1b]0;stolen\x07", "\x1b]2;stolen\x1b\\", // clipboard, titles
		"\x1b]8;;javascript:alert(1)\x1b\\click\x1b]8;;\x1b\\", "\x1b]1337;File=inline=1:AAAA\x07", "\x1b]9;4;1;50\x07",
		"<img src=x onerror=alert(2)><script>alert(3)</script>", "javascript:alert(4) data:text/html,<script>alert(5)</script>",
		"\x1b[8;1;1t\x1b[14t\x1b[2J\x1b[3J", "\x1b[999999999;999999999H\x1b[2147483647S\x1b[2147483647b\x1b[99999999999999999999m",
		"\x1b[?1049h\x1b[?47l\x1b[?1000;1006;2004h", "\u202egnitcerid\u2066", "\x1b[;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;;m",
	} {
		b.WriteString(sequence + "\r\n")
	}
	b.WriteString("a" + strings.Repeat("\u0301", 20_000) + "\n")                    // combining marks
	b.WriteString("\x1bPq" + strings.Repeat("#1~~@@vv$-", 400_000) + "\x1b\\")      // sixels
	b.WriteString("\x1b]52;c;" + strings.Repeat("A", 1<<20) + "\x07")               // a long clipboard
	b.WriteString(strings.Repeat("one line of a mebibyte ", 1<<20/23) + "\n")       //
	b.WriteString(strings.Repeat("\xff\xc0\xed\xa0\x80\xf4\x90\x80\x80", 10_000))   // no UTF-8
	b.WriteString(strings.Repeat("\x1b[38;2;1;2;3m\x1b[48;2;3;2;1mx\x1b[0m", 9999)) // a colour for each letter
	random := rand.New(rand.NewPCG(1, 2))
	for range 300_000 {
		b.WriteByte(byte(random.Uint32()))
	}
	b.WriteString("\x18\x1b\\\x1bcTHE END\r\n")
	return b.Bytes()
}

// Hostile output and command lines run nothing, reach nothing outside of the terminal, and leave the page usable.
func TestHostileOutput(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hostile")
	if err := os.WriteFile(file, hostile(), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, console.Config{})
	r.run(`for (const name of ["writeText", "write"]) navigator.clipboard[name] = () => problems.push("clipboard");
		document.execCommand = (what) => problems.push("execCommand " + what)`)
	r.start(client.Command{Argv: []string{"cat", file}, TTY: true})
	r.start(client.Command{Argv: []string{"sh", "-c", "sleep 100000", "<img src=x onerror=alert(6)>\x1b]0;stolen\x07\u202e"}})
	r.choose("cat")
	r.seen("THE END")
	if title := eval[string](r, "document.title"); !strings.HasPrefix(title, "cat ") {
		t.Errorf("the title is %q", title)
	}
	r.run(`document.querySelector(".screen .xterm-helper-textarea").focus()`)
	r.press(0, "Home")
	r.wait("the beginning", `document.querySelector(".screen").ariaBusy === "false"`)
	r.choose("sleep 100000")
	if made := eval[int](r, `document.querySelectorAll("main img, main script, main iframe, main a").length`); made > 0 {
		t.Errorf("output and command lines have made %d elements", made)
	}
	r.press(ctrl, "k")
	r.wait("the palette", `document.querySelector("dialog") !== null`)
	r.press(0, "Escape")
	r.clean()
}

// A link opens after a question that shows where it leads, and only if it leads to a page.
func TestLinks(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.start(client.Command{Argv: []string{"printf", `\033]8;;%s\033\\%s\033]8;;\033\\\n`, "javascript:alert(1)", "harmless-one", "http://127.0.0.1:9/page", "harmless-two"}})
	r.choose("printf")
	r.seen("harmless-two")
	click := func(text string) {
		t.Helper()
		at := eval[[]float64](r, fmt.Sprintf(`(() => {
			const row = [...document.querySelectorAll(".screen .xterm-rows > div")].find((row) => row.textContent.includes(%q)).getBoundingClientRect();
			return [row.left + 20, row.top + row.height / 2];
		})()`, text))
		r.do(chromedp.MouseEvent("mouseMoved", at[0]+1, at[1]), chromedp.MouseEvent("mouseMoved", at[0], at[1]), chromedp.MouseClickXY(at[0], at[1]))
	}
	click("harmless-one")
	click("harmless-two")
	r.wait("the question", `document.querySelector("dialog .dialog-text")?.textContent === "http://127.0.0.1:9/page"`)
	if dialogs := eval[int](r, `document.querySelectorAll("dialog").length`); dialogs != 1 {
		t.Errorf("%d questions", dialogs)
	}
	r.press(0, "Enter") // Cancel
	r.wait("no question", `document.querySelector("dialog") === null`)
	r.clean()
}

// The terminal of a page that only watches answers no question of the output: the answer would be input of the command.
func TestQuestions(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	p := r.start(client.Command{TTY: true, Argv: []string{"sh", "-c", `stty -echo; printf '\033[c\033[6n\033[>c\033]10;?\007\033[?6n\033P$qm\033\\'; echo asked; read -r answer; printf '%s' "$answer" | od -c; echo end; sleep 100000`}})
	r.choose("stty")
	r.seen("asked")
	if err := p.Write(t.Context(), []byte("mine\n")); err != nil {
		t.Fatal(err)
	}
	r.seen("end")
	if !strings.Contains(r.screen(), "0000000   m   i   n   e\n") {
		t.Errorf("the command has read\n%s", r.screen())
	}
	r.clean()
}
