package web

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/tetherexec/tether/wire"
)

// maxHeaderName bounds the name of a request header, in bytes.
const maxHeaderName = 1<<16 - 1

// A request is one hop: a request to one target. The header has the headers of the parameters; build
// adds the headers of the hop.
type request struct {
	method string
	target *target
	header fields
	body   []byte
}

// fields are headers by their names in lower case, unlike http.Header.
type fields map[string][]string

// newRequest checks the parameters, in the same order as the reference.
func newRequest(p *wire.HTTPRequestParams, env environment) (*request, error) {
	if !httpguts.ValidHeaderFieldName(p.Method) { // both are tokens
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
	if user, password, ok := t.login(); ok && header["authorization"] == nil {
		header["authorization"] = []string{basicAuth(user, password)}
	}
	r := &request{method: p.Method, target: t, header: header}
	if p.BodyBase64 != nil {
		r.body = *p.BodyBase64
	}
	return r, nil
}

func newHeader(list []wire.HTTPHeader, env environment) (fields, error) {
	h := fields{}
	for _, entry := range list {
		if !httpguts.ValidHeaderFieldName(entry.Name) || len(entry.Name) > maxHeaderName {
			return nil, invalid("header name is invalid: invalid HTTP header name")
		}
		value := entry.Value
		if entry.ValueEnvVar != nil {
			secret, err := env.headerValue(entry.Name, *entry.ValueEnvVar)
			if err != nil {
				return nil, err
			}
			value += secret
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, invalid("header value is invalid for %s: failed to parse header value", entry.Name)
		}
		name := strings.ToLower(entry.Name)
		h[name] = append(h[name], value)
	}
	return h, nil
}

func basicAuth(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// redirected returns the next request after an answer with this status and location. ok is false if
// the answer is the final one.
func (r *request) redirected(status int, location string) (next *request, ok bool, err error) {
	t, err := r.target.resolve(location)
	if scheme, ok := errors.AsType[errScheme](err); ok {
		return nil, false, failed(err, "redirect target uses unsupported URL scheme: %s", string(scheme))
	}
	if err != nil {
		return nil, false, nil
	}
	next = &request{method: r.method, target: t, header: maps.Clone(r.header), body: r.body}
	if status == 303 && r.method != "HEAD" || (status == 301 || status == 302) && r.method == "POST" {
		next.method, next.body = "GET", nil
		for _, name := range []string{"content-type", "content-length", "content-encoding", "transfer-encoding"} {
			delete(next.header, name)
		}
	}
	if !r.target.sameOrigin(t) {
		for _, name := range []string{"authorization", "cookie", "proxy-authorization", "www-authenticate", "cookie2"} {
			delete(next.header, name)
		}
	}
	if r.target.scheme == "http" || t.scheme == "https" { // an https URL is not sent to an http target
		next.header["referer"] = []string{r.target.page()}
	}
	return next, true, nil
}

// isRedirect reports whether an answer with this status is followed.
func isRedirect(status int) bool {
	return slices.Contains([]int{301, 302, 303, 307, 308}, status)
}

// build returns the request for net/http. Names of headers stay in lower case: net/http treats such
// headers as unknown and sends them unchanged.
func (r *request) build(ctx context.Context, via *route) (*http.Request, error) {
	h := maps.Clone(r.header)
	if h["accept"] == nil {
		h["accept"] = []string{"*/*"}
	}
	if via.absolute() && h["proxy-authorization"] == nil && via.proxy.Authorization() != "" {
		h["proxy-authorization"] = []string{via.proxy.Authorization()}
	}
	h["User-Agent"] = []string{""} // prevents the one of net/http
	if options := h["connection"]; options != nil {
		delete(h, "connection")
		h["Connection"] = options // under this name net/http does not add another one
	}
	name := r.target.authority()
	if given := h["host"]; given != nil {
		delete(h, "host")
		name = given[0]
	}
	hop := (&http.Request{Method: r.method, URL: r.url(via), Host: name, Header: http.Header(h)}).WithContext(ctx)
	hop.Close = httpguts.HeaderValuesContainsToken(h["Connection"], "close")
	body, length, err := r.frame()
	if err != nil {
		return nil, err
	}
	delete(h, "content-length")
	delete(h, "transfer-encoding")
	if length != 0 {
		hop.ContentLength = length
		hop.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		hop.Body, _ = hop.GetBody()
	}
	return hop, nil
}

// url returns the URL for net/http in a form that keeps the bytes of the path: url.URL would escape
// them again.
func (r *request) url(via *route) *url.URL {
	t := r.target
	u := &url.URL{Scheme: t.scheme, Host: t.authority()}
	if r.method == http.MethodConnect {
		u.Opaque = t.authority()
		return u
	}
	u.RawQuery, u.ForceQuery = strings.TrimPrefix(t.query, "?"), t.query == "?"
	switch {
	case via.absolute():
		u.Opaque = "//" + t.authority() + t.path
	case strings.HasPrefix(t.path, "//"): // in Opaque it would mean a host
		u.Path, u.RawPath = unescape(t.path), t.path
	default:
		u.Opaque = t.path
	}
	return u
}

var errCodings = errors.New("transfer-encoding of a request can only be chunked")

// frame returns the body to send and its length, which is negative if the body is sent in chunks. If
// the content-length header is smaller than the body, the body is cut.
func (r *request) frame() (body []byte, length int64, err error) {
	if len(r.body) == 0 {
		return nil, 0, nil
	}
	if codings := r.header["transfer-encoding"]; codings != nil {
		if !strings.EqualFold(strings.TrimSpace(strings.Join(codings, ",")), "chunked") {
			return nil, 0, errCodings
		}
		return r.body, -1, nil
	}
	whole := int64(len(r.body))
	if given, ok := contentLength(r.header["content-length"]); ok && given < whole {
		return r.body[:given], given, nil
	} else if ok && given > whole {
		return nil, 0, fmt.Errorf("content-length is %d, but the body has %d bytes", given, whole)
	}
	return r.body, whole, nil
}

// contentLength reads the content-length lines of a request. ok is false if
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
