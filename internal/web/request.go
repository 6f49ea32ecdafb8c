package web

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tetherexec/tether/wire"
)

// A request is one hop: what is sent to one target. The header holds what was
// asked for; what is added for the hop is added by head.
type request struct {
	method string
	target *target
	header headers
	body   []byte
}

// newRequest checks the parameters, in the order in which the reference does.
func newRequest(p *wire.HTTPRequestParams, env environment) (*request, error) {
	if !isToken(p.Method) {
		return nil, invalid("method is invalid: invalid HTTP method")
	}
	t, err := parseTarget(p.URL)
	if scheme, ok := errors.AsType[errScheme](err); ok {
		return nil, invalid("only supports http and https URLs, got %s", string(scheme))
	}
	if err != nil {
		return nil, invalid("url is invalid: %v", err)
	}
	header, err := newHeader(p.Headers, env)
	if err != nil {
		return nil, err
	}
	if user, password, ok := t.login(); ok {
		header = withLogin(header, user, password)
	}
	r := &request{method: p.Method, target: t, header: header}
	if p.BodyBase64 != nil {
		r.body = *p.BodyBase64
	}
	return r, nil
}

func newHeader(list []wire.HTTPHeader, env environment) (headers, error) {
	var h headers
	for _, entry := range list {
		if !isToken(entry.Name) || len(entry.Name) > maxHeaderName {
			return h, invalid("header name is invalid: invalid HTTP header name")
		}
		value := entry.Value
		if entry.ValueEnvVar != nil {
			secret, err := env.headerValue(entry.Name, *entry.ValueEnvVar)
			if err != nil {
				return h, err
			}
			value += secret
		}
		if !isHeaderValue(value) {
			return h, invalid("header value is invalid for %s: failed to parse header value", entry.Name)
		}
		h.add(strings.ToLower(entry.Name), value)
	}
	return h, nil
}

// withLogin puts the credentials of the URL first. Given ones win, but move
// to that place.
func withLogin(h headers, user, password string) headers {
	values := h.values("authorization")
	if values == nil {
		values = []string{basicAuth(user, password)}
	}
	var out headers
	for _, v := range values {
		out.add("authorization", v)
	}
	for _, f := range h.fields {
		for _, v := range f.values {
			if f.name != "authorization" {
				out.add(f.name, v)
			}
		}
	}
	return out
}

func basicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// redirected returns the request that follows an answer with that status and
// location to r. ok is false if the answer is the final one.
func (r *request) redirected(status int, location string) (next *request, ok bool, err error) {
	t, err := r.target.resolve(location)
	if scheme, ok := errors.AsType[errScheme](err); ok {
		return nil, false, failed(err, "redirect target uses unsupported URL scheme: %s", string(scheme))
	}
	if err != nil {
		return nil, false, nil
	}
	next = &request{method: r.method, target: t, header: r.header.clone(), body: r.body}
	if status == 303 && r.method != "HEAD" || (status == 301 || status == 302) && r.method == "POST" {
		next.method, next.body = "GET", nil
		for _, name := range []string{"content-type", "content-length", "content-encoding", "transfer-encoding"} {
			next.header.remove(name)
		}
	}
	if !r.target.sameOrigin(t) {
		for _, name := range []string{"authorization", "cookie", "proxy-authorization", "www-authenticate", "cookie2"} {
			next.header.remove(name)
		}
	}
	if r.target.scheme == "http" || t.scheme == "https" { // a secure page is not told to an insecure one
		next.header.remove("referer")
		next.header.add("referer", r.target.page())
	}
	return next, true, nil
}

// isRedirect tells whether an answer with that status is followed.
func isRedirect(status int) bool {
	return slices.Contains([]int{301, 302, 303, 307, 308}, status)
}

// isSafe tells whether the request may be sent again when a pooled connection
// breaks before the first byte of an answer.
func (r *request) isSafe() bool {
	return len(r.body) == 0 && slices.Contains([]string{"GET", "HEAD", "OPTIONS", "TRACE"}, r.method)
}

// encode returns the bytes of the request on a route. whole is false if the
// given content-length promises more than the body has: then the connection
// is of no use for another request.
func (r *request) encode(via *route) (head, body []byte, whole bool) {
	h := r.header.clone()
	h.addMissing("accept", "*/*")
	if via.absolute() && via.proxy.Authorization() != "" {
		h.addMissing("proxy-authorization", via.proxy.Authorization())
	}
	h.addMissing("host", r.target.authority())
	body, whole = r.frame(&h)

	uri := r.target.path + r.target.query
	if r.method == "CONNECT" {
		uri = r.target.authority()
	} else if via.absolute() {
		uri = r.target.page()
	}
	head = append(head, r.method+" "+uri+" HTTP/1.1\r\n"...)
	for _, f := range h.fields {
		for _, v := range f.values {
			head = append(head, f.name...)
			head = append(head, ": "...)
			head = append(head, v...)
			head = append(head, "\r\n"...)
		}
	}
	return append(head, "\r\n"...), body, whole
}

// frame completes the headers that say how long the body is, and returns the
// body as it is sent. A given length or transfer coding is respected as far as
// it makes sense.
func (r *request) frame(h *headers) (body []byte, whole bool) {
	if codings := h.values("transfer-encoding"); codings != nil {
		if len(r.body) == 0 {
			h.remove("transfer-encoding")
			return nil, !h.has("content-length")
		}
		h.remove("content-length")
		if last := &codings[len(codings)-1]; !endsInChunked(*last) {
			*last += ", chunked"
		}
		return chunk(r.body), true
	}
	given := h.values("content-length")
	if len(r.body) == 0 {
		length, ok := contentLength(given)
		return nil, given == nil || ok && length == 0
	}
	length, ok := contentLength(given)
	if !ok {
		h.set("content-length", strconv.Itoa(len(r.body)))
		return r.body, true
	}
	return r.body[:min(length, int64(len(r.body)))], length <= int64(len(r.body))
}

// chunk frames a body as one chunk.
func chunk(body []byte) []byte {
	framed := strconv.AppendInt(nil, int64(len(body)), 16)
	framed = append(framed, "\r\n"...)
	framed = append(framed, body...)
	return append(framed, "\r\n0\r\n\r\n"...)
}

// endsInChunked tells whether chunked is the last coding of a list.
func endsInChunked(codings string) bool {
	last := codings[strings.LastIndexByte(codings, ',')+1:]
	return strings.EqualFold(strings.Trim(last, " \t"), "chunked")
}

// contentLength reads the content-length lines of a message. ok is false if
// there is none, or if they are not numbers or do not agree.
func contentLength(values []string) (length int64, ok bool) {
	length = -1
	for _, line := range values {
		for v := range strings.SplitSeq(line, ",") {
			v = strings.Trim(v, " \t")
			n, err := strconv.ParseUint(v, 10, 63)
			if err != nil || v[0] == '+' || length >= 0 && length != int64(n) {
				return 0, false
			}
			length = int64(n)
		}
	}
	return length, length >= 0
}
