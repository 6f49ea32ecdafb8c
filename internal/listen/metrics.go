package listen

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// metricsPath is where a server publishes its counters.
const metricsPath = "/metrics"

// serveMetrics sends the counters to every client that may use the server. Without a token or a client
// certificate, the request must name the server by its address: a web page whose host name resolves to this
// address sends that name, and is refused.
func (u *upgrader) serveMetrics(w http.ResponseWriter, r *http.Request) {
	switch _, err := u.auth.Check(r); {
	case u.auth == nil && certified(r) == "" && !namesAddress(r.Host):
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
