package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/console/web"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/wire"
)

// patience is how long a test waits for the page, which shares the processors with other tests. It is only spent by a test that fails.
const patience = hang.Limit

// watch runs in each page before its own script: it notes what the browser complains about.
const watch = `
window.problems = [];
addEventListener("securitypolicyviolation", (e) => problems.push("policy: " + e.violatedDirective + " " + e.blockedURI + " " + e.sample));
addEventListener("error", (e) => problems.push("error: " + e.message));
addEventListener("unhandledrejection", (e) => problems.push("rejection: " + e.reason));
for (const name of ["alert", "confirm", "prompt", "open"]) window[name] = (text) => { problems.push(name + ": " + text); return null; };
`

// A rig is a server with a console, a client that starts commands on it, and a page.
type rig struct {
	t      *testing.T
	url    string // of the server
	client *client.Client
	page   context.Context
}

// newRig starts a server, and lets a page in.
func newRig(t *testing.T, config console.Config) *rig {
	t.Helper()
	r := newServer(t, config)
	r.open(r.url)
	return r
}

// newServer starts a server with a console.
func newServer(t *testing.T, config console.Config) *rig {
	t.Helper()
	return newServerWith(t, config, server.Config{})
}

func newServerWith(t *testing.T, config console.Config, settings server.Config) *rig {
	t.Helper()
	config.Files = web.Files
	s := tethertest.StartServerOn(t, listen.Config{URL: listen.DefaultURL, Console: &config}, settings)
	r := &rig{t: t, url: s.URL}
	c, err := client.Dial(t.Context(), s.URL, client.Options{Name: "agent", Label: "build agent"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	r.client = c
	return r
}

// newServerBehind starts a server whose console is reached through a cable.
func newServerBehind(t *testing.T, c *cable.Cable, config console.Config) *rig {
	t.Helper()
	config.Origins = append(config.Origins, origin(t, c.URL()))
	r := newServer(t, config)
	if err := c.Aim(r.url); err != nil {
		t.Fatal(err)
	}
	return r
}

// nowhere is the target of a cable before there is a server.
const nowhere = "ws://127.0.0.1:1"

// code asks for a code for the console.
func (r *rig) code() string {
	r.t.Helper()
	var answer wire.ConsoleCode
	if err := r.client.Call(r.t.Context(), client.Idempotent, wire.MethodConsoleCode, wire.Empty{}, &answer); err != nil {
		r.t.Fatal(err)
	}
	return answer.Code
}

// open opens a page of its own browser context on the console at the WebSocket URL of a server or of a cable.
func (r *rig) open(at string) {
	r.t.Helper()
	r.page = r.newTab()
	r.visit(at, r.code())
	r.wait("connection", `document.querySelector("#lamp")?.textContent === "connected"`)
}

// newTab opens an empty page in a new browser context.
func (r *rig) newTab() context.Context {
	r.t.Helper()
	ctx, end := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	r.t.Cleanup(end)
	err := chromedp.Do(ctx, chromedp.EmulateViewport(1440, 900), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch})
		return err
	}))
	if err != nil {
		r.t.Fatal(err)
	}
	return ctx
}

// clean fails the test if the browser has complained.
func (r *rig) clean() {
	r.t.Helper()
	for _, problem := range eval[[]string](r, "problems") {
		r.t.Errorf("the browser says: %s", problem)
	}
}

// visit goes to the console with a code.
func (r *rig) visit(at, code string) {
	r.t.Helper()
	r.do(chromedp.Navigate(console.URL(origin(r.t, at), "", code)))
}

// origin is the origin of pages at the URL of a WebSocket.
func origin(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + u.Host
}

// do runs actions in the page.
func (r *rig) do(actions ...chromedp.Action[chromedp.Void]) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.page, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		r.t.Fatalf("%v\n%s", err, r.text())
	}
}

// text is what the page shows, for failures.
func (r *rig) text() string {
	r.shoot("failed-" + r.t.Name())
	ctx, cancel := context.WithTimeout(r.page, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`(document.body?.innerText ?? "") + "\n" + (window.problems ?? []).join("\n")`))
	if err != nil {
		return err.Error()
	}
	return text[:min(len(text), 6000)]
}

// eval evaluates an expression in the page.
func eval[T any](r *rig, expression string) T {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.page, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", expression, err, r.text())
	}
	return value
}

// run runs statements in the page.
func (r *rig) run(statements string) {
	r.t.Helper()
	eval[bool](r, "(async () => { "+statements+"; return true })()")
}

// wait waits until an expression is true in the page.
func (r *rig) wait(what, condition string) {
	r.t.Helper()
	waitFor[chromedp.Void](r, what, condition)
}

// waitFor waits until an expression has a value that counts as true, and returns it.
func waitFor[T any](r *rig, what, expression string) T {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.page, 2*patience) // a page that has crashed does not answer
	defer cancel()
	for {
		value, err := chromedp.Run(ctx, chromedp.Poll[T](expression, chromedp.WithPollingInterval(30*time.Millisecond), chromedp.WithPollingTimeout(patience)))
		if err != nil && (strings.Contains(err.Error(), "Cannot find context") || strings.Contains(err.Error(), "navigated or closed")) {
			continue // the page has just been loaded again
		}
		if err != nil {
			r.t.Fatalf("waiting for %s: %v\n%s", what, err, r.text())
		}
		return value
	}
}

// start starts a command on the server.
func (r *rig) start(c client.Command) *client.Process {
	r.t.Helper()
	p, err := r.client.Start(r.t.Context(), c)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// shell starts a command of a shell, without a terminal.
func (r *rig) shell(script string) *client.Process {
	r.t.Helper()
	return r.start(client.Command{Argv: []string{"sh", "-c", script}})
}

// choose shows a command in the terminal, by a text in its row.
func (r *rig) choose(text string) {
	r.t.Helper()
	quoted, _ := json.Marshal(text)
	row := fmt.Sprintf(`[...document.querySelectorAll(".row.command")].find((row) => row.textContent.includes(%s))`, quoted)
	r.wait("the row of "+text, row+" !== undefined")
	r.run(row + ".click()")
	r.wait("the terminal", `document.querySelector(".screen .xterm-rows") !== null && !document.querySelector(".mode-loading")`)
}

// click clicks on what a selector finds.
func (r *rig) click(selector string) {
	r.t.Helper()
	r.do(chromedp.Click(chromedp.CSS(selector)))
}

// screen is the text in the terminal that is seen.
const screenText = `[...document.querySelectorAll(".screen .xterm-rows > div")].map((row) => row.textContent.replace(/[\u00a0 ]+$/, "")).join("\n")`

func (r *rig) screen() string {
	r.t.Helper()
	return eval[string](r, screenText)
}

// seen waits until the terminal shows a text.
func (r *rig) seen(text string) {
	r.t.Helper()
	quoted, _ := json.Marshal(text)
	r.wait("the text "+text, fmt.Sprintf("%s.includes(%s)", screenText, quoted))
}
