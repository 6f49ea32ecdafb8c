package netproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"

	"github.com/tetherexec/tether/internal/netpolicy"
)

// explanations are the texts for reasons: a class for programs, and a sentence.
var explanations = map[string]struct{ class, message string }{
	netpolicy.NotAllowed:       {"blocked-by-allowlist", "Domain not in allowlist."},
	netpolicy.NotAllowedLocal:  {"blocked-by-allowlist", "Sandbox policy blocks local/private network addresses."},
	netpolicy.Denied:           {"blocked-by-denylist", "Domain denied by the sandbox policy."},
	netpolicy.MethodNotAllowed: {"blocked-by-method-policy", "Method not allowed in limited mode."},
	netpolicy.MitmRequired:     {"blocked-by-mitm-required", "MITM required for limited HTTPS."},
}

// refusal is the body of the response to a refused plain request.
type refusal struct {
	Status   string             `json:"status"`
	Host     string             `json:"host"`
	Reason   string             `json:"reason"`
	Decision string             `json:"decision"`
	Source   netpolicy.Source   `json:"source"`
	Protocol netpolicy.Protocol `json:"protocol"`
	Port     uint16             `json:"port"`
	Message  string             `json:"message"`
}

// answerRefusal tells a client that the rules, or the client that was asked,
// refused.
func answerRefusal(w http.ResponseWriter, q netpolicy.Query, d netpolicy.Decision) {
	why, ok := explanations[d.Reason]
	if !ok {
		why.class, why.message = "blocked-by-policy", "Request blocked by network policy."
	}
	w.Header().Set("X-Proxy-Error", why.class)
	if q.Protocol == netpolicy.Connect {
		answerText(w, http.StatusForbidden, why.message)
		return
	}
	verb := "deny"
	if d.Source == netpolicy.Decider && d.Open {
		verb = "ask" // the client wants to be asked in another way
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // it is not shown in a browser
	if err := e.Encode(refusal{"blocked", q.Host, d.Reason, verb, d.Source, q.Protocol, q.Port, why.message}); err != nil {
		answerText(w, http.StatusForbidden, why.message)
		return
	}
	answer(w, http.StatusForbidden, "application/json", bytes.TrimSuffix(body.Bytes(), []byte("\n")))
}

// answerFailure tells a client that a host was allowed but could not be reached. It
// gives no details, because the error may reveal the network around the server.
func answerFailure(w http.ResponseWriter, err error) {
	var slow net.Error
	switch {
	case errors.Is(err, errLoop):
		answerText(w, http.StatusLoopDetected, "request leads back to the proxy")
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		answerText(w, http.StatusGatewayTimeout, "upstream timeout")
	default:
		answerText(w, http.StatusBadGateway, "upstream failure")
	}
}

func answerText(w http.ResponseWriter, status int, text string) {
	answer(w, status, "text/plain", []byte(text))
}

func answer(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	w.Write(body)
}
