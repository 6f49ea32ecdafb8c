package listen

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/tetherexec/tether/internal/console"
	"github.com/tetherexec/tether/wire"
)

// serveConsole answers a request of a browser. A browser that is logged in to the console becomes a client like any other, with the
// principal of the client that has let it in.
func (u *upgrader) serveConsole(w http.ResponseWriter, r *http.Request) {
	if r.URL.EscapedPath() == console.PathCode {
		u.serveCode(w, r)
		return
	}
	o := u.console.Serve(w, r)
	switch {
	case o.Refused == console.NoLogin && r.Method == http.MethodPost: // the page asks whether it is logged in
	case o.Refused != "":
		u.counts.refuse(viaConsole, consoleReason(o.Refused))
		u.logRefusal("browser refused", "peer", r.RemoteAddr, "path", truncate(r.URL.Path), "reason", string(o.Refused), "origin", truncate(r.Header.Get("Origin")), "host", truncate(r.Host))
	case o.Socket:
		if status, problem := checkUpgrade(r); problem != "" {
			u.counts.count(viaConsole, malformed)
			refuse(w, status, problem)
			return
		}
		u.upgrade(w, r, Client{Browser: true, Principal: o.Grant.Principal, ReadOnly: o.Grant.ReadOnly, Admin: o.Grant.Admin, Expires: o.Grant.Expires, Epoch: o.Grant.Epoch, Query: o.Query})
	}
}

// serveCode answers a client that asks for a code. A gateway has no other way to let browsers in: it passes on the requests of its clients
// unread. The checks are those of other pages; besides, no page may ask, not even the console's own.
func (u *upgrader) serveCode(w http.ResponseWriter, r *http.Request) {
	client, err := u.check(r)
	switch {
	case r.Header["Origin"] != nil || r.Header["Sec-Fetch-Site"] != nil || !u.named(r):
		u.counts.refuse(u.via, webPage)
		u.logRefusal("request for a code refused", "peer", r.RemoteAddr, "origin", truncate(r.Header.Get("Origin")), "host", truncate(r.Host))
		w.WriteHeader(http.StatusForbidden)
	case err != nil:
		u.counts.refuse(u.via, reasonOf(err))
		u.logRefusal("client not authenticated", "peer", r.RemoteAddr, "err", err)
		refuse(w, statusOf(err), err.Error())
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", "POST")
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		code, err := ConsoleCode(u.console, client)
		if err != nil {
			refuse(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		u.log.Info("a client lets a browser in", "peer", r.RemoteAddr)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Write(wire.AppendValue(nil, &code)) // an error only concerns the client
	}
}

// ConsoleCode returns a code for the browser of a client.
func ConsoleCode(page *console.Console, of Client) (wire.ConsoleCode, error) {
	code, err := page.Code(console.Grant{Principal: of.Principal, ReadOnly: of.ReadOnly, Admin: of.Admin, Expires: of.Expires, Epoch: of.Epoch})
	if err != nil {
		return wire.ConsoleCode{}, err
	}
	answer := wire.ConsoleCode{Code: code.Text, ExpiresMs: uint64(code.Expires.Milliseconds()), ReadOnly: code.ReadOnly}
	if origin := page.Origin(); origin != "" {
		answer.Origin = &origin
	}
	return answer, nil
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
