package console

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Path is where the page is. The other paths are below it.
const Path = "/console/"

const (
	// PathCode is where clients ask for a code over HTTP. The listener serves it, because it knows its clients.
	PathCode = Path + "code"

	pathLogin  = Path + "login"
	pathSocket = Path + "socket"

	cookiePrefix = "tether_console_" // the port follows
	keyParameter = "key"             // of the URL of the socket

	// maxLoginBody limits the request of a login.
	maxLoginBody = 1 << 10
)

// Owns reports whether a path belongs to the console.
func Owns(path string) bool { return path+"/" == Path || strings.HasPrefix(path, Path) }

// A Reason says why a request was refused.
type Reason string

// The reasons.
const (
	BadHost   Reason = "host"   // the request names a host that is not that of the console
	BadOrigin Reason = "origin" // the request comes from another page, or not from a page
	BadCode   Reason = "code"   // the code is unknown, was used, or is too old
	NoLogin   Reason = "login"  // the browser is not logged in
)

// Reasons are all of them.
var Reasons = []Reason{BadHost, BadOrigin, BadCode, NoLogin}

// An Outcome is what has become of a request.
type Outcome struct {
	Refused Reason // "": it was not refused

	// Socket means that the browser may open a WebSocket, and that the request is not answered yet.
	Socket bool
	Grant  Grant
	Query  string // of the URL of the socket, without what the console needs
}

// Serve answers a request for a path of the console, unless it may open a WebSocket.
func (c *Console) Serve(w http.ResponseWriter, r *http.Request) Outcome {
	secure(w.Header())
	path := r.URL.EscapedPath()
	acts := path == pathLogin || path == pathSocket
	if why := c.check(r, acts); why != "" {
		return refuse(w, why)
	}
	switch {
	case path == pathLogin:
		return c.login(w, r)
	case path == pathSocket:
		return c.socket(w, r)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return wrongMethod(w, "GET, HEAD")
	}
	if path+"/" == Path {
		target := url.URL{Path: Path, RawQuery: r.URL.RawQuery}
		w.Header().Set("Location", target.String())
		w.WriteHeader(http.StatusPermanentRedirect)
		return Outcome{}
	}
	c.page.serve(w, r, strings.TrimPrefix(path, Path))
	return Outcome{}
}

// texts tell a person why a request was refused.
var texts = map[Reason]string{
	BadHost:   "Open the console by the address of the server, by localhost, or by a name that the server was started with (--console-origin).\n",
	BadOrigin: "Only the console's own page may do this.\n",
	BadCode:   "The code is unknown, was used, or is older than a minute. `tether console` prints a new one.\n",
	NoLogin:   "This browser is not logged in. `tether console` opens the page with a code that logs it in.\n",
}

func refuse(w http.ResponseWriter, why Reason) Outcome {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusForbidden)
	io.WriteString(w, texts[why]) // an error only concerns the browser
	return Outcome{Refused: why}
}

func wrongMethod(w http.ResponseWriter, allowed string) Outcome {
	w.Header().Set("Allow", allowed)
	w.WriteHeader(http.StatusMethodNotAllowed)
	return Outcome{}
}

// check refuses requests that other pages have caused. A request that acts must come from the console's own page, which browsers prove with
// the header Origin. The page itself may be opened by a link, without that header.
func (c *Console) check(r *http.Request, acts bool) Reason {
	named := slices.Contains(c.hosts, strings.ToLower(r.Host))
	if !named && !NamesAddress(r.Host) { // a name that its owner may let point to this machine (DNS rebinding)
		return BadHost
	}
	origins := r.Header["Origin"]
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case len(origins) > 1, acts && len(origins) == 0:
		return BadOrigin
	case len(origins) == 1 && !c.isOwn(origins[0], r, named):
		return BadOrigin
	case acts && site != "" && site != "same-origin":
		return BadOrigin
	}
	return ""
}

// isOwn reports whether an origin is that of the console's page.
func (c *Console) isOwn(origin string, r *http.Request, named bool) bool {
	if slices.Contains(c.config.Origins, origin) {
		return true // a proxy in front of the server may change Host
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return !named && strings.EqualFold(origin, scheme+r.Host)
}

// NamesAddress reports whether a Host header is an address or localhost.
func NamesAddress(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(host, "localhost")
}

// login exchanges a code for a cookie and a key, or tells whether the browser is logged in with a key.
func (c *Console) login(w http.ResponseWriter, r *http.Request) Outcome {
	if r.Method != http.MethodPost {
		return wrongMethod(w, "POST")
	}
	origin := r.Header.Get("Origin")
	var body struct{ Code, Key string }
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(media), "application/json") {
		return refuse(w, BadOrigin) // a form of another page could send this
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLoginBody)).Decode(&body); err != nil || (body.Code == "") == (body.Key == "") {
		return refuse(w, BadCode)
	}
	if body.Key != "" {
		if _, ok := c.find(r, body.Key); !ok {
			return refuse(w, NoLogin)
		}
		w.WriteHeader(http.StatusNoContent)
		return Outcome{}
	}
	name := cookieName(origin)
	c.mu.Lock()
	grant, ok := c.codes.take(body.Code)
	var cookie, key string
	var until time.Time
	if ok {
		for _, old := range r.CookiesNamed(name) {
			c.logins.end(old.Value) // the new cookie replaces it
		}
		cookie, key, until = c.logins.add(grant)
	}
	c.mu.Unlock()
	if !ok {
		return refuse(w, BadCode)
	}
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: cookie, Path: strings.TrimSuffix(Path, "/"), MaxAge: max(1, int(time.Until(until).Seconds())),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: strings.HasPrefix(origin, "https://"),
	})
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]string{"key": key}) // an error only concerns the browser
	return Outcome{}
}

// socket finds out which browser opens a WebSocket.
func (c *Console) socket(w http.ResponseWriter, r *http.Request) Outcome {
	query := r.URL.Query()
	grant, ok := c.find(r, query.Get(keyParameter))
	if !ok {
		return refuse(w, NoLogin)
	}
	query.Del(keyParameter)
	return Outcome{Socket: true, Grant: grant, Query: query.Encode()}
}

// find returns the grant of the browser that has sent a request.
func (c *Console) find(r *http.Request, key string) (Grant, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cookie := range r.CookiesNamed(cookieName(r.Header.Get("Origin"))) { // a page of another port may have set one, too
		if grant, ok := c.logins.find(cookie.Value, key); ok {
			return grant, true
		}
	}
	return Grant{}, false
}

// cookieName returns the name of the cookie at an origin. Browsers keep the cookies of a host for all its ports together.
func cookieName(origin string) string {
	u, err := url.Parse(origin)
	if err != nil {
		return cookiePrefix
	}
	port := u.Port()
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	return cookiePrefix + port
}
