package cable

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// maxHead limits the opening request and its answer.
const maxHead = 64 << 10

// An Upgrade is a fault while a connection is opened: the target does not see the
// request.
type Upgrade struct {
	status int // 0: the connection is reset
	silent bool
}

// The faults besides Status.
var (
	NoAnswer = Upgrade{silent: true} // the request is read and never answered
	NoEntry  = Upgrade{}             // the connection is reset
)

// Status answers the request with an HTTP status other than 101.
func Status(code int) Upgrade { return Upgrade{status: code} }

// OnUpgrade makes a rule for opening requests from now on. Only the counting of the
// match is used: Any() is the next request, Any().Times(3) the next three. The
// first rule that matches a request decides.
func (c *Cable) OnUpgrade(match Match, fault Upgrade) *Rule {
	r := &Rule{c: c, match: match, upgrade: fault, changed: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.upgrades = append(slices.Clip(c.upgrades), r)
	return r
}

// judgeUpgrade returns the rule that decides about an opening request, or nil.
func (c *Cable) judgeUpgrade() *Rule {
	c.mu.Lock()
	rules := c.upgrades
	c.mu.Unlock()
	for _, r := range rules {
		if r.count() {
			return r
		}
	}
	return nil
}

// fail causes the fault.
func (u Upgrade) fail(l *link, in io.Reader, acted func()) {
	switch {
	case u.silent:
		acted()
		_, _ = io.Copy(io.Discard, in) // until the client gives up or the link is severed
	case u.status == 0:
		l.sever("reset by a rule", true)
		acted()
	default:
		_, _ = fmt.Fprintf(l.near, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", u.status, http.StatusText(u.status))
		l.sever(fmt.Sprintf("answered with status %d", u.status), false)
		acted()
	}
}

func (u Upgrade) String() string {
	switch {
	case u.silent:
		return "never answered"
	case u.status == 0:
		return "reset by a rule"
	}
	return fmt.Sprintf("answered with status %d", u.status)
}

var errHead = errors.New("the head of the HTTP message is too long")

// readHead reads up to the empty line that ends an HTTP header. The bytes read are
// returned with an error, too.
func readHead(in *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		line, err := in.ReadSlice('\n')
		head = append(head, line...)
		switch {
		case len(head) > maxHead:
			return head, errHead
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return head, err
		case err == nil && len(bytes.TrimRight(line, "\r\n")) == 0:
			return head, nil
		}
	}
}

// rewrite changes a client's request into one for the target.
func (e endpoint) rewrite(head []byte) []byte {
	var out []byte
	for i, line := range bytes.SplitAfter(head, []byte("\n")) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		parts := bytes.SplitN(line, []byte(" "), 3)
		switch {
		case i == 0 && e.path != "" && len(parts) == 3:
			out = append(out, parts[0]...)
			out = append(out, " "+e.path+" "...)
			out = append(out, parts[2]...)
		case i > 0 && e.host != "" && bytes.EqualFold(name, []byte("Host")):
			out = append(out, "Host: "+e.host+"\r\n"...)
		case i > 0 && bytes.EqualFold(name, []byte("Sec-WebSocket-Extensions")):
		default:
			out = append(out, line...)
		}
	}
	return out
}

// asksSwitch reports whether a request asks for an upgrade.
func asksSwitch(head []byte) bool {
	for line := range bytes.SplitSeq(head, []byte("\n")) {
		if name, _, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Upgrade")) {
			return true
		}
	}
	return false
}

// isSwitch reports whether an answer accepts the upgrade.
func isSwitch(head []byte) bool {
	return bytes.HasPrefix(head, []byte("HTTP/1.1 101"))
}
