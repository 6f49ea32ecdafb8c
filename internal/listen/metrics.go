package listen

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// metricsPath is where a server shows what it counts.
const metricsPath = "/metrics"

// serveMetrics shows the counters to whoever may use the server. A web page that gave its
// own name our address sends that name.
func (u *upgrader) serveMetrics(w http.ResponseWriter, r *http.Request) {
	switch err := u.auth.Check(r); {
	case u.auth == nil && !namesAddress(r.Host):
		refuse(w, http.StatusForbidden, "without authentication, ask by address or as localhost")
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET,HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
	case err != nil:
		refuse(w, http.StatusUnauthorized, err.Error())
	default:
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		u.metrics(w)
	}
}

// namesAddress reports whether a Host header is an address or localhost.
func namesAddress(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "localhost"
}
