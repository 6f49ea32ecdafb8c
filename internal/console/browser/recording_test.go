package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/console"
)

// playerText is the text of a recording. The terminal behind it has text, too.
const playerText = `document.querySelector(".player .xterm-rows").textContent`

// The page plays the log of an ended command, saves it as a recording with each byte of the log, and plays the file.
func TestRecording(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	p := r.start(client.Command{TTY: true, Argv: []string{"sh", "-c", `for i in 1 2 3 4 5 6; do printf "step $i €\n"; sleep 0.1; done`}})
	r.choose("step")
	r.wait("the end", `document.querySelector(".mode").textContent === "All of the output"`)
	r.run(`window.saved = undefined;
		const original = URL.createObjectURL;
		URL.createObjectURL = (blob) => { window.saved = blob; return original.call(URL, blob); }`)
	r.press(0, "x")
	r.wait("the file", "window.saved !== undefined")
	file := eval[string](r, "window.saved.text()")
	if want, got := string(r.log(p.Output())), played(t, file); got != want {
		t.Errorf("the recording has %q, the log %q", got, want)
	}

	const over = `document.querySelector(".player")?.querySelector(".play").ariaLabel === "Play again"`
	r.press(0, "p")
	r.wait("the end of the log", over)
	r.wait("the last picture", playerText+`.includes("step 6 €")`)
	r.run(`const bar = document.querySelector(".scrubber"); bar.value = 0; bar.dispatchEvent(new Event("input"))`)
	r.wait("the beginning", playerText+`.includes("step 6") === false`)
	r.run(`const speed = document.querySelector(".speed"); speed.value = "16"; speed.dispatchEvent(new Event("change"));
		document.querySelector(".play").click()`)
	r.wait("the end at 16 times the speed", over)
	r.press(0, "Escape")
	r.wait("the command", `document.querySelector(".player") === null`)

	drop := func(text string) {
		t.Helper()
		quoted, _ := json.Marshal(text)
		r.run(fmt.Sprintf(`const files = new DataTransfer();
			files.items.add(new File([%s], "dropped.cast"));
			document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, cancelable: true }))`, quoted))
	}
	drop(file + "[1,")
	r.wait("what is wrong", `document.querySelector(".toasts")?.textContent.includes("dropped.cast: line")`)
	drop(file)
	r.wait("the end of the file", over)
	r.wait("the last picture", playerText+`.includes("step 6 €")`)
	r.clean()
}

// played is the output of a recording.
func played(t *testing.T, file string) string {
	t.Helper()
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimRight(file, "\n"), "\n") {
		var event []any
		if i == 0 {
			continue
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil || len(event) != 3 {
			t.Fatalf("line %d: %s: %v", i+1, line, err)
		}
		b.WriteString(event[2].(string))
	}
	return b.String()
}
