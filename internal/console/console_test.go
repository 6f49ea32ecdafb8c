package console

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const here = "http://127.0.0.1:7000"

// A browser is logged in, or tries to be.
type browser struct {
	t       *testing.T
	console *Console
	origin  string
	cookies []*http.Cookie
	key     string
}

func newBrowser(t *testing.T, c Config) *browser {
	t.Helper()
	console, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t: t, console: console, origin: here}
}

// ask sends a request to the console as the page would, changed by edit.
func (b *browser) ask(method, path, body string, edit func(*http.Request)) (*http.Response, Outcome) {
	b.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = strings.TrimPrefix(b.origin, "http://")
	if strings.HasPrefix(path, pathLogin) || strings.HasPrefix(path, pathSocket) {
		r.Header.Set("Origin", b.origin)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	o := b.console.Serve(w, r)
	return w.Result(), o
}

func (b *browser) code(g Grant) string {
	b.t.Helper()
	code, err := b.console.Code(g)
	if err != nil {
		b.t.Fatal(err)
	}
	return code.Text
}

// login logs in with a code, and reports whether that was possible.
func (b *browser) login(code string) bool {
	b.t.Helper()
	answer, o := b.ask("POST", pathLogin, `{"code":"`+code+`"}`, nil)
	if o.Refused != "" {
		return false
	}
	var keyed struct{ Key string }
	if err := json.NewDecoder(answer.Body).Decode(&keyed); err != nil || keyed.Key == "" {
		b.t.Fatalf("login: %v %v", answer.Status, err)
	}
	b.cookies, b.key = answer.Cookies(), keyed.Key
	return true
}

// connect asks for the socket.
func (b *browser) connect(edit func(*http.Request)) Outcome {
	b.t.Helper()
	_, o := b.ask("GET", pathSocket+"?key="+b.key, "", edit)
	return o
}

func TestLogin(t *testing.T) {
	b := newBrowser(t, Config{})
	code := b.code(Grant{Principal: "alice"})
	if !b.login(code) {
		t.Fatal("the code does not work")
	}
	c := b.cookies[0]
	if c.Name != "tether_console_7000" || c.Path != "/console" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.MaxAge < 11*3600 {
		t.Errorf("cookie %v", c)
	}
	if o := b.connect(nil); !o.Socket || o.Grant.Principal != "alice" || o.Grant.ReadOnly || o.Query != "" {
		t.Errorf("socket: %+v", o)
	}
	if _, o := b.ask("GET", pathSocket+"?host=build-1&key="+b.key, "", nil); !o.Socket || o.Query != "host=build-1" {
		t.Errorf("socket with a query: %+v", o)
	}
	if answer, o := b.ask("POST", pathLogin, `{"key":"`+b.key+`"}`, nil); answer.StatusCode != http.StatusNoContent || o.Refused != "" {
		t.Errorf("the page asks whether it is logged in: %v %+v", answer.Status, o)
	}
	if b.login(code) {
		t.Error("a code works twice")
	}
}

// The origin https stands for a proxy in front of the server, which ends TLS.
func TestLoginAtNamedOrigin(t *testing.T) {
	b := newBrowser(t, Config{Origins: []string{"https://tether.example"}})
	b.origin = "https://tether.example"
	for _, host := range []string{"tether.example", "127.0.0.1:7000"} {
		edit := func(r *http.Request) { r.Host = host }
		answer, o := b.ask("POST", pathLogin, `{"code":"`+b.code(Grant{})+`"}`, edit)
		if o.Refused != "" || !answer.Cookies()[0].Secure || answer.Cookies()[0].Name != "tether_console_443" {
			t.Errorf("host %s: %+v %v", host, o, answer.Cookies())
		}
	}
	edit := func(r *http.Request) { r.Host = "tether.example"; r.Header.Set("Origin", "http://tether.example") }
	if _, o := b.ask("POST", pathLogin, `{"code":"`+b.code(Grant{})+`"}`, edit); o.Refused != BadOrigin {
		t.Errorf("another scheme: %+v", o)
	}
}

func TestRefusedCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(t, Config{})
		late := b.code(Grant{})
		time.Sleep(codeTime)
		for what, code := range map[string]string{"late": late, "forged": "AAAAAAAAAAAAAAAAAAAAAA", "none": "", "a quote": `\"`} {
			if b.login(code) {
				t.Errorf("%s: the code works", what)
			}
		}
		for _, body := range []string{"", "{", "null", "[]", `{"code":7}`, `{"code":"` + strings.Repeat("x", maxLoginBody) + `"}`} {
			if answer, o := b.ask("POST", pathLogin, body, nil); o.Refused != BadCode || answer.StatusCode != http.StatusForbidden {
				t.Errorf("%.20s: %v %+v", body, answer.Status, o)
			}
		}
		if answer, _ := b.ask("GET", pathLogin, "", nil); answer.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("GET: %v", answer.Status)
		}
	})
}

// A page that is not the console's own cannot use a code, nor the cookie and the key of a browser that is logged in.
func TestOtherPagesAreRefused(t *testing.T) {
	b := newBrowser(t, Config{Origins: []string{"https://tether.example"}})
	if !b.login(b.code(Grant{})) {
		t.Fatal("login")
	}
	set := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	at := func(host string) func(*http.Request) {
		return func(r *http.Request) { r.Host = host; r.Header.Set("Origin", "http://"+host) }
	}
	for what, row := range map[string]struct {
		edit func(*http.Request)
		why  Reason
	}{
		"another port":           {set("Origin", "http://127.0.0.1:7001"), BadOrigin},
		"another host":           {set("Origin", "http://localhost:7000"), BadOrigin},
		"another scheme":         {set("Origin", "https://127.0.0.1:7000"), BadOrigin},
		"a file, a frame":        {set("Origin", "null"), BadOrigin},
		"no origin":              {func(r *http.Request) { r.Header.Del("Origin") }, BadOrigin},
		"two origins":            {func(r *http.Request) { r.Header.Add("Origin", here) }, BadOrigin},
		"the same site":          {set("Sec-Fetch-Site", "same-site"), BadOrigin},
		"another site":           {set("Sec-Fetch-Site", "cross-site"), BadOrigin},
		"DNS rebinding":          {at("evil.example:7000"), BadHost},
		"DNS rebinding, no port": {at("evil.example"), BadHost},
		"a name below localhost": {at("x.localhost:7000"), BadHost},
		"no host":                {at(""), BadHost},
		"the named host, http":   {at("tether.example"), BadOrigin},
	} {
		if o := b.connect(row.edit); o.Refused != row.why || o.Socket {
			t.Errorf("%s: %+v", what, o)
		}
		code := b.code(Grant{})
		if _, o := b.ask("POST", pathLogin, `{"code":"`+code+`"}`, row.edit); o.Refused != row.why {
			t.Errorf("%s: login: %+v", what, o)
		}
		if !newTab(b).login(code) {
			t.Errorf("%s: a refused page has used the code", what)
		}
	}
	for what, edit := range map[string]func(*http.Request){"a form": set("Content-Type", "text/plain"), "no type": set("Content-Type", "")} {
		if _, o := b.ask("POST", pathLogin, `{"code":"`+b.code(Grant{})+`"}`, edit); o.Refused != BadOrigin {
			t.Errorf("%s: %+v", what, o)
		}
	}
	for what, edit := range map[string]func(*http.Request){
		"another page": set("Origin", "http://127.0.0.1:7001"), "DNS rebinding": at("evil.example"),
	} {
		if answer, o := b.ask("GET", Path, "", edit); answer.StatusCode != http.StatusForbidden || o.Refused == "" {
			t.Errorf("%s: the page: %v %+v", what, answer.Status, o)
		}
	}
}

// newTab is another browser with the same console.
func newTab(b *browser) *browser { return &browser{t: b.t, console: b.console, origin: b.origin} }

// Browsers send the cookie of a server to all ports of its host. A program on another port that has got it cannot use it without the key, nor
// can it make a browser use another login.
func TestCookieAloneIsNotEnough(t *testing.T) {
	b := newBrowser(t, Config{})
	b.login(b.code(Grant{Principal: "alice"}))
	other := newTab(b)
	other.login(b.code(Grant{Principal: "mallory"}))
	stolen := newTab(b)
	stolen.cookies = b.cookies
	for _, key := range []string{"", "AAAAAAAAAAAAAAAAAAAAAA", other.key} {
		stolen.key = key
		if o := stolen.connect(nil); o.Refused != NoLogin {
			t.Errorf("the cookie with the key %q: %+v", key, o)
		}
	}
	keyOnly := newTab(b)
	keyOnly.key = b.key
	if o := keyOnly.connect(nil); o.Refused != NoLogin {
		t.Errorf("the key alone: %+v", o)
	}
	b.cookies = append(other.cookies, b.cookies...) // planted by a page of another port
	if o := b.connect(nil); !o.Socket || o.Grant.Principal != "alice" {
		t.Errorf("with a planted cookie: %+v", o)
	}
}

// Two servers on one host have different cookies, and a server that follows another at its port does not know the other's.
func TestServersOnOneHost(t *testing.T) {
	first, second := newBrowser(t, Config{}), newBrowser(t, Config{})
	second.origin = "http://127.0.0.1:7001"
	first.login(first.code(Grant{}))
	second.cookies = first.cookies
	second.login(second.code(Grant{}))
	both := append(first.cookies, second.cookies...)
	first.cookies, second.cookies = both, both
	if a, b := first.connect(nil), second.connect(nil); !a.Socket || !b.Socket {
		t.Errorf("%+v, %+v", a, b)
	}
	later := newBrowser(t, Config{})
	later.cookies, later.key = first.cookies, first.key
	if o := later.connect(nil); o.Refused != NoLogin {
		t.Errorf("a cookie of an earlier server: %+v", o)
	}
}

func TestGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(t, Config{})
		if _, err := b.console.Code(Grant{ReadOnly: true}); err != ErrWatcher {
			t.Errorf("a code for a read-only client: %v", err)
		}
		watched := newBrowser(t, Config{ReadOnly: true})
		for _, asker := range []Grant{{Principal: "alice"}, {Principal: "alice", ReadOnly: true}} {
			watched.login(watched.code(asker))
			if o := watched.connect(nil); !o.Grant.ReadOnly || o.Grant.Principal != "alice" {
				t.Errorf("a read-only console lets %+v in as %+v", asker, o)
			}
		}
		b.login(b.code(Grant{Expires: time.Now().Add(time.Hour)}))
		time.Sleep(time.Hour - time.Second)
		if o := b.connect(nil); !o.Socket {
			t.Errorf("before the asker's token expires: %+v", o)
		}
		time.Sleep(time.Second)
		if o := b.connect(nil); o.Refused != NoLogin {
			t.Errorf("after it has expired: %+v", o)
		}
		late := b.code(Grant{Expires: time.Now().Add(time.Second)})
		time.Sleep(time.Second)
		if b.login(late) {
			t.Error("a code works although the asker's token has expired")
		}
		b.login(b.code(Grant{}))
		time.Sleep(loginTime)
		if o := b.connect(nil); o.Refused != NoLogin {
			t.Errorf("after %v: %+v", loginTime, o)
		}
	})
}

func TestTablesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(t, Config{})
		for range maxCodes {
			b.code(Grant{})
		}
		if _, err := b.console.Code(Grant{}); err != ErrCodes {
			t.Errorf("one code more: %v", err)
		}
		for i := range 10_000 {
			if b.login(fmt.Sprint(i)) {
				t.Fatal("a guess works")
			}
		}
		if n := len(b.console.codes); n != maxCodes {
			t.Errorf("%d codes", n)
		}
		time.Sleep(codeTime)
		alice := newTab(b)
		alice.login(b.code(Grant{Principal: "alice"}))
		first := newTab(b)
		first.login(b.code(Grant{Principal: "bob"}))
		var last *browser
		for range maxLogins {
			time.Sleep(time.Millisecond)
			last = newTab(b)
			last.login(b.code(Grant{Principal: "bob"}))
		}
		if n := len(b.console.logins); n != maxLogins {
			t.Errorf("%d logins", n)
		}
		if a, f, l := alice.connect(nil), first.connect(nil), last.connect(nil); !a.Socket || f.Socket || !l.Socket {
			t.Errorf("another principal: %+v, the oldest: %+v, the newest: %+v", a, f, l)
		}
		for range 10 * maxLogins { // one browser logs in again and again
			last.login(b.code(Grant{Principal: "carol"}))
		}
		if !alice.connect(nil).Socket {
			t.Error("a browser that logs in again counts twice")
		}
	})
}

func TestPage(t *testing.T) {
	packed := gzipped(t, "body{}")
	loads := 0
	b := newBrowser(t, Config{Files: func() (map[string][]byte, error) {
		if loads++; loads == 1 {
			return nil, fmt.Errorf("not yet")
		}
		return map[string][]byte{
			"index.html": []byte("<p>"), "app.js": []byte("1"), "style.css.gz": packed, "style.css": []byte("longer"), "placeholder.html": []byte("none"), ".secret": nil,
		}, nil
	}})
	if answer, _ := b.ask("GET", Path, "", nil); answer.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("without files: %v", answer.Status)
	}
	get := func(path string, edit func(*http.Request)) (*http.Response, string) {
		answer, o := b.ask("GET", path, "", edit)
		if o != (Outcome{}) {
			t.Errorf("%s: %+v", path, o)
		}
		body, _ := io.ReadAll(answer.Body)
		return answer, string(body)
	}
	answer, body := get(Path, nil)
	if body != "<p>" || answer.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("index: %q %v", body, answer.Header)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	answer, body = get(Path+"style.css", func(r *http.Request) { r.Header.Set("Accept-Encoding", "br, gzip") })
	if body != string(packed) || answer.Header.Get("Content-Encoding") != "gzip" || answer.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("compressed: %q %v", body, answer.Header)
	}
	tag := answer.Header.Get("ETag")
	if answer, body = get(Path+"style.css", nil); body != "body{}" || answer.Header.Get("Content-Encoding") != "" {
		t.Errorf("for a client without gzip: %q %v", body, answer.Header)
	}
	if answer, body = get(Path+"style.css", func(r *http.Request) { r.Header.Set("If-None-Match", `"x", `+tag) }); answer.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("unchanged: %v %q", answer.Status, body)
	}
	for _, name := range []string{".secret", "style.css.gz", "x", "app.js/", "../console/app.js", "%2e%2e/app.js", "login/x"} {
		if answer, _ := get(Path+name, nil); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %v", name, answer.Status)
		}
	}
	if answer, _ := get("/console?host=a", nil); answer.StatusCode != http.StatusPermanentRedirect || answer.Header.Get("Location") != "/console/?host=a" {
		t.Errorf("without a slash: %v %v", answer.Status, answer.Header)
	}
	if answer, _ := b.ask("DELETE", Path, "", nil); answer.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %v", answer.Status)
	}
	if loads != 2 {
		t.Errorf("the files were loaded %d times", loads)
	}
}

func TestCheckOrigin(t *testing.T) {
	for _, good := range []string{"https://tether.example", "http://h:8080", "https://[::1]:8443"} {
		if err := CheckOrigin(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "tether.example", "https://", "https://a/", "https://a/console", "https://a:443", "http://a:80", "https://A", "https://u@a", "https://a?b", "ws://a", "null", "*", "https://*.a/"} {
		if CheckOrigin(bad) == nil {
			t.Errorf("%q is taken for an origin", bad)
		}
	}
}
