package listen

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"

	"github.com/tetherexec/tether/internal/console"
)

// A Page is what a listener shows over HTTP at a path of its own to every client that may connect.
type Page struct {
	Path  string
	Type  string          // of the content
	Write func(io.Writer) // an error only concerns the client
}

// Metrics returns the page with the counters of a program, in the text format of Prometheus.
func Metrics(write func(io.Writer)) Page {
	return Page{"/metrics", "text/plain; version=0.0.4; charset=utf-8", write}
}

// JSONPage returns a page with a value in JSON.
func JSONPage(path string, value func() any) Page {
	return Page{path, "application/json", func(w io.Writer) { json.NewEncoder(w).Encode(value()) }}
}

// page returns the page at a path; nil: there is none.
func (u *upgrader) page(path string) *Page {
	if i := slices.IndexFunc(u.pages, func(p Page) bool { return p.Path == path }); i >= 0 {
		return &u.pages[i]
	}
	return nil
}

// servePage sends a page to every client that may use the server. Without a token or a client certificate, the request must name
// the server by its address: a web page whose host name resolves to this address sends that name, and is refused.
func (u *upgrader) servePage(w http.ResponseWriter, r *http.Request, p *Page) {
	switch _, err := u.check(r); {
	case !u.named(r):
		refuse(w, http.StatusForbidden, "without authentication, ask by address or as localhost")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET,HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
	case err != nil:
		u.counts.refuse(u.via, reasonOf(err))
		u.logRefusal("client not authenticated", "peer", r.RemoteAddr, "path", p.Path, "err", err)
		refuse(w, statusOf(err), err.Error())
	default:
		w.Header().Set("Content-Type", p.Type)
		p.Write(w)
	}
}

// named reports whether a request that is not authenticated names the server as only programs of a user do, by its address.
func (u *upgrader) named(r *http.Request) bool {
	return u.access.authenticator() != nil || certified(r) != Client{} || console.NamesAddress(r.Host)
}
