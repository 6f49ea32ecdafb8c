package browser

import (
	"testing"

	"github.com/tetherexec/tether/internal/console"
)

// A page that has shown many commands keeps only the terminal of the last one.
func TestTerminalsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{})
	r.shell("echo one; sleep 100")
	r.shell("echo two; sleep 100")
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
	if kept := eval[int](r, "kept"); kept > 0 {
		t.Errorf("%d listeners keep terminals that have ended", kept)
	}
	r.clean()
}
