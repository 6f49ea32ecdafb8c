package browser

import (
	"context"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// Modifiers of keys.
const (
	ctrl  = 2
	shift = 8
)

// codes are keys without a character.
var codes = map[string]int64{"Backspace": 8, "Tab": 9, "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36, "ArrowUp": 38, "ArrowDown": 40}

// press presses keys, as "Enter" or "a", and releases each.
func (r *rig) press(modifiers int64, keys ...string) {
	r.t.Helper()
	r.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, key := range keys {
			p := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: key, Modifiers: modifiers}
			if code, special := codes[key]; special {
				p.Code, p.WindowsVirtualKeyCode = key, code
				if key == "Enter" {
					p.Text = "\r"
				}
			} else {
				if upper := strings.ToUpper(key); upper >= "0" && upper <= "9" || upper >= "A" && upper <= "Z" {
					p.Code, p.WindowsVirtualKeyCode = "Key"+upper, int64(upper[0])
				}
				if modifiers&ctrl == 0 {
					p.Text = key
				}
			}
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, p); err != nil {
				return err
			}
			p.Type, p.Text = input.DispatchKeyEventTypeKeyUp, ""
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, p); err != nil {
				return err
			}
		}
		return nil
	}))
}

// write types a text and presses Enter.
func (r *rig) write(text string) {
	r.t.Helper()
	r.press(0, append(strings.Split(text, ""), "Enter")...)
}

// frames waits until the page has been drawn so often.
func (r *rig) frames(n int) {
	r.t.Helper()
	r.run(fmt.Sprintf("for (let i = 0; i < %d; i++) await new Promise(requestAnimationFrame)", n))
}

// wheel turns the wheel of the mouse over the terminal.
func (r *rig) wheel(deltaY float64) {
	r.t.Helper()
	r.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseWheel, X: 600, Y: 400, DeltaX: 1e-3, DeltaY: deltaY})
		return err
	}))
}
