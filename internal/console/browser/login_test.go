package browser

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/wire"
)

const (
	connected = `document.querySelector("#lamp")?.textContent === "connected"`
	turnedOff = `document.querySelector(".door h1")?.textContent.includes("does not work")`
)

// A code lets one browser in, which stays in when the page is loaded again. A browser with a code that is forged or was used sees how to get another.
func TestSignIn(t *testing.T) {
	t.Parallel()
	r := newServer(t, console.Config{})
	r.page = r.newTab()
	r.visit(r.url, "AAAAAAAAAAAAAAAAAAAAAA")
	r.wait("the refusal", turnedOff)
	code := r.code()
	r.visit(r.url, code) // in the same tab: only the part behind # changes
	r.wait("the page", connected)
	if address := eval[string](r, "location.href"); strings.Contains(address, "code") {
		t.Errorf("the address of the page is %s", address)
	}
	r.do(chromedp.Reload())
	r.wait("the page again", connected)

	other := &rig{t: t, url: r.url, client: r.client}
	other.page = other.newTab()
	other.visit(r.url, code)
	other.wait("the refusal of a used code", turnedOff)
	r.clean()
	other.clean()
}

// A lines is a log that several goroutines write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// attack is what a page of another origin tries, in a browser that is logged in to the console; it even knows the key. Each value is what came of it.
const attack = `(async () => {
	const base = %q, key = %q, code = %q;
	const outcome = (promise) => promise.then((what) => String(what), () => "refused");
	const socket = (path) => outcome(new Promise((open, fail) => {
		const ws = new WebSocket(base.replace("http", "ws") + path);
		ws.onopen = () => open("open");
		ws.onerror = fail;
	}));
	const loaded = (element) => outcome(new Promise((load, fail) => {
		element.onload = () => load("loaded");
		element.onerror = fail;
		document.body.append(element);
	}));
	const post = (type) => outcome(fetch(base + "/console/login", { method: "POST", credentials: "include", headers: { "Content-Type": type }, body: JSON.stringify({ code }) }));
	return {
		"reading the page": await outcome(fetch(base + "/console/", { credentials: "include" })),
		"using the code": await post("application/json"),
		"using the code as a form": await post("text/plain"),
		"the console's socket": await socket("/console/socket?key=" + key),
		"the socket of other clients": await socket("/"),
		"running the page's script": await loaded(Object.assign(document.createElement("script"), { src: base + "/console/console.js" })),
	};
})()`

// A page of another port of this machine gets the cookie of the console with its requests, and can neither read nor run anything.
func TestPageOfAnotherPort(t *testing.T) {
	t.Parallel()
	var log lines
	r := newServerWith(t, console.Config{}, server.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	r.open(r.url)
	r.shell("sleep 100000")
	key := eval[string](r, `localStorage.getItem("tether-console-key")`)
	var cookies lines
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		fmt.Fprintln(&cookies, request.Header.Get("Cookie"))
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>evil</title><body></body>")
	}))
	t.Cleanup(evil.Close)
	r.do(chromedp.Navigate(evil.URL + "/console/")) // where the cookie goes, too
	if !strings.Contains(cookies.String(), "tether_console_") {
		t.Errorf("the cookies of the browser are %q: without that of the console, this test proves little", cookies.String())
	}
	code := r.code()
	for what, came := range eval[map[string]string](r, fmt.Sprintf(attack, origin(t, r.url), key, code)) {
		if came != "refused" {
			t.Errorf("%s: %s", what, came)
		}
	}
	if frames := eval[bool](r, fmt.Sprintf(`new Promise((done) => {
		const frame = document.createElement("iframe");
		frame.onload = () => { try { done(frame.contentDocument !== null) } catch { done(false) } };
		frame.src = %q;
		document.body.append(frame);
	})`, origin(t, r.url)+"/console/")); frames {
		t.Error("the page is in a frame that another page can read")
	}
	var all wire.ListResult
	if err := r.client.Call(t.Context(), client.Idempotent, wire.MethodProcessList, wire.ListParams{}, &all); err != nil || len(all.Processes) != 1 {
		t.Errorf("the server has %d processes, %v", len(all.Processes), err)
	}
	said := log.String()
	for _, path := range []string{"/console/login", "/console/socket"} {
		if !strings.Contains(said, "path="+path+" reason=origin origin="+evil.URL) {
			t.Errorf("the log does not say that %s was refused:\n%s", path, said)
		}
	}
	if strings.Contains(said, code) || strings.Contains(said, key) {
		t.Errorf("the log has secrets:\n%s", said)
	}
	r.visit(r.url, code)
	r.wait("the page, with the code that the other page has tried", connected)
	r.clean()
}

// Browsers of a read-only console watch and search. The server refuses the rest, whatever the page asks for.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, console.Config{ReadOnly: true})
	p := r.shell("echo one; sleep 100000")
	r.choose("echo one")
	r.seen("one")
	r.wait("the badge", `!document.querySelector("#read-only").hidden`)
	r.press(0, "t")
	if shown := eval[int](r, `[...document.querySelectorAll(".toolbar .button")].filter((b) => b.offsetParent !== null).length`); shown > 0 {
		t.Errorf("the page has %d buttons that act", shown)
	}
	r.press(0, "f")
	r.write("one")
	r.wait("a match", `document.querySelectorAll(".find-result").length > 0`)
	const ask = `(async () => {
		const ws = new WebSocket(location.origin.replace("http", "ws") + "/console/socket?key=" + localStorage.getItem("tether-console-key"));
		await new Promise((open) => (ws.onopen = open));
		let id = 0;
		const call = (method, params) => new Promise((done) => {
			const mine = ++id;
			ws.addEventListener("message", (e) => { const m = JSON.parse(e.data); if (m.id === mine) done(m.error ? "refused" : "done"); });
			ws.send(JSON.stringify({ id: mine, method, params }));
		});
		await call("initialize", { clientName: "mallory" });
		ws.send(JSON.stringify({ method: "initialized", params: {} }));
		const { sessions } = await new Promise((done) => {
			ws.addEventListener("message", (e) => { const m = JSON.parse(e.data); if (m.id === 99) done(m.result); });
			ws.send(JSON.stringify({ id: 99, method: "tether/session/list", params: {} }));
		});
		const target = { processId: %q };
		const answers = [];
		for (const { sessionId } of sessions) for (const [method, more] of [
			["tether/process/takeControl", {}], ["tether/process/write", { chunk: "eA==", writeId: "1" }], ["tether/process/terminate", {}],
			["tether/process/signal", { signal: "SIGTERM" }],
		]) answers.push(await call(method, { ...target, ...more, sessionId }));
		answers.push(await call("process/start", { processId: "x", argv: ["true"], cwd: "/", env: {}, tty: false }));
		return answers.join(" ");
	})()`
	if answers := eval[string](r, fmt.Sprintf(ask, p.ID())); strings.Contains(answers, "done") || !strings.Contains(answers, "refused") {
		t.Errorf("the server answers %s", answers)
	}
	r.clean()
}
