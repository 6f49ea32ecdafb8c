package listen

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/tetherexec/tether/internal/console"
)

// serveConsole answers a request of a browser. A browser that is logged in to the console becomes a client like any other, with the
// principal of the client that has let it in.
func (u *upgrader) serveConsole(w http.ResponseWriter, r *http.Request) {
	o := u.console.Serve(w, r)
	switch {
	case o.Refused == console.NoLogin && r.Method == http.MethodPost: // the page asks whether it is logged in
	case o.Refused != "":
		u.logRefusal("browser refused", "peer", r.RemoteAddr, "path", truncate(r.URL.Path), "reason", string(o.Refused), "origin", truncate(r.Header.Get("Origin")), "host", truncate(r.Host))
	case o.Socket:
		if status, problem := checkUpgrade(r); problem != "" {
			refuse(w, status, problem)
			return
		}
		u.upgrade(w, r, Client{Principal: o.Grant.Principal, ReadOnly: o.Grant.ReadOnly, Query: o.Query})
	}
}

// maxLogged limits what a stranger can put into a line of the log.
const maxLogged = 128

func truncate(s string) string {
	if len(s) > maxLogged {
		return s[:maxLogged] + "…"
	}
	return s
}

// PageOrigin is the origin at which a browser of this machine finds the console; "": it needs a relay, see package console/relay.
func (l *Listener) PageOrigin() string {
	if l.Console != nil && l.Console.Origin() != "" {
		return l.Console.Origin()
	}
	scheme, address, _ := strings.Cut(l.URL, "://")
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return ""
	}
	switch ip := a.Addr(); {
	case ip.IsUnspecified() && ip.Is4():
		a = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.Port())
	case ip.IsUnspecified():
		a = netip.AddrPortFrom(netip.IPv6Loopback(), a.Port())
	}
	return "http" + strings.TrimPrefix(scheme, "ws") + "://" + a.String()
}
