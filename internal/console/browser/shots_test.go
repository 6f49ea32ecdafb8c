package browser

import (
	"context"
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
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
