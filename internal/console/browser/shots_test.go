package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"context"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/console"
)

// shoot writes a picture of the page.
func (r *rig) shoot(name string) {
	r.t.Helper()
	if *shots == "" {
		return
	}
	picture, err := chromedp.Run(r.page, chromedp.CaptureScreenshot())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*shots, name+".png"), picture, 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// scheme lets the page believe that the system is dark, or light.
func (r *rig) scheme(name string) {
	r.t.Helper()
	r.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	}))
}

func TestShots(t *testing.T) {
	r := newRig(t, console.Config{})
	r.shell("sleep 100000")
	r.shell("cat /nonexistent")
	r.start(client.Command{Argv: []string{"bash"}, TTY: true, Rows: 24, Cols: 80})
	r.start(client.Command{Argv: []string{"sh", "-c", `for i in 1 2 3; do printf '\033[32mok\033[0m test %d passed\n' $i; done; echo "warning: deprecated" >&2; printf '\033[31mFAIL\033[0m test 4\n'; sleep 100000`}, TTY: false})
	r.choose("for i in")
	r.seen("FAIL")
	for _, s := range []string{"light", "dark"} {
		r.scheme(s)
		r.shoot("first-" + s)
	}
	r.clean()
}
