package browser

import (
	"testing"

	"github.com/tetherexec/tether/internal/console"
)

// A page that has shown many commands keeps only the terminal of the last one.
func TestTerminalsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.shell("echo one; sleep 100000")
	r.shell("echo two; sleep 100000")
	r.choose("echo one")
	r.run(`
		window.kept = 0;
		for (const [type, begin, end] of [[ResizeObserver, "observe", "disconnect"], [MediaQueryList, "addEventListener", "removeEventListener"]]) {
			for (const [name, by] of [[begin, 1], [end, -1]]) {
				const original = type.prototype[name];
				type.prototype[name] = function (...all) { kept += by; return original.apply(this, all); };
			}
		}`)
	for range 5 {
		r.choose("echo two")
		r.seen("two")
		r.choose("echo one")
		r.seen("one")
	}
	// Terminals that end as soon as they are open.
	r.run(`
		const rows = [...document.querySelectorAll(".row.command")];
		for (let i = 0; i < 6; i++) rows[i % 2].click()`)
	r.wait("the end of all terminals but one", "kept <= 0")
	r.clean()
}
