package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// MaxRequestBody is the largest body of a request: it travels in one message.
const MaxRequestBody = 32 << 20

// timeoutMargin is how much longer the executor tries than the caller waits, so that the
// caller gets the error of its own context.
const timeoutMargin = time.Second

// A Transport makes HTTP requests from the executor's network, with the proxies and name
// servers there. It is an [http.RoundTripper], safe for concurrent use:
//
//	browser := http.Client{Transport: web.Of(c)}
//
// Bodies of responses are streamed. If the connection is lost, a body fails with that reason
// after the bytes that had arrived, and a request without an answer fails with
// [client.ErrAmbiguous]. The end of a request's context ends the request here; the executor
// goes on until its own time limit. There is no back-pressure: if more than 256 pieces of a
// body, or 16 MiB of all bodies, wait to be read, the body fails.
//
// The Transport does not follow redirects; http.Client does. The body of a request may have up
// to MaxRequestBody bytes.
type Transport struct {
	// EnvHeaders are added to requests to their hosts.
	EnvHeaders []EnvHeader

	client *client.Client
	bodies *bodies
}

// An EnvHeader is a header whose value is a variable of the executor's environment.
type EnvHeader struct {
	Host     string // of the URL, with its port if the URL has one; other hosts do not get the header
	Name     string
	Prefix   string // comes before the value, as in "Bearer "
	Variable string
}

// Of returns a Transport whose requests the executor makes.
func Of(c *client.Client) *Transport {
	b := c.Extend(bodiesKey{}, func() client.Extension { return new(bodies) }).(*bodies)
	return &Transport{client: c, bodies: b}
}

// bodiesKey is the key of the bodies among the extensions of a client.
type bodiesKey struct{}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	params, err := t.params(req)
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	var resp *http.Response
	err = t.client.Through(ctx, client.AtMostOnce, func(l *client.Link) error {
		body := t.bodies.open(ctx)
		params.RequestID = body.id
		params.TimeoutMs = timeLeft(ctx)
		var r wire.HTTPResponse
		if err := l.Call(ctx, wire.MethodHTTPRequest, params, &r); err != nil {
			body.Close()
			return err
		}
		resp = response(req, &r, body)
		return nil
	})
	return resp, err
}

func timeLeft(ctx context.Context) *uint64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	ms := uint64(max(0, time.Until(deadline)+timeoutMargin).Milliseconds())
	return &ms
}

// params returns the parameters of a request. It reads the request's body.
func (t *Transport) params(req *http.Request) (*wire.HTTPRequestParams, error) {
	body, err := requestBody(req)
	if err != nil {
		return nil, err
	}
	if req.URL == nil || req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Host == "" {
		return nil, fmt.Errorf("executor makes http and https requests only, not %v", req.URL)
	}
	u := *req.URL
	u.User, u.Fragment, u.RawFragment = nil, "", "" // http.Client has put the user into a header
	p := &wire.HTTPRequestParams{
		Method: req.Method, URL: u.String(), Headers: []wire.HTTPHeader{},
		RedirectPolicy: wire.RedirectStop, StreamResponse: true,
	}
	if p.Method == "" {
		p.Method = http.MethodGet
	}
	if len(body) > 0 {
		p.BodyBase64 = (*wire.Base64)(&body)
	}
	if req.Host != "" && req.Host != u.Host {
		p.Headers = append(p.Headers, wire.HTTPHeader{Name: "host", Value: req.Host})
	}
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		for _, value := range req.Header[name] {
			p.Headers = append(p.Headers, wire.HTTPHeader{Name: name, Value: value})
		}
	}
	for _, h := range t.EnvHeaders {
		if !strings.EqualFold(h.Host, u.Host) {
			continue
		}
		if !t.client.Info().Capabilities.HTTPHeaderEnvVars {
			return nil, fmt.Errorf("a header from the executor's environment: %w", client.ErrUnsupported)
		}
		p.Headers = append(p.Headers, wire.HTTPHeader{Name: h.Name, Value: h.Prefix, ValueEnvVar: &h.Variable})
	}
	return p, nil
}

// requestBody reads a request's body and closes it.
func requestBody(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	defer req.Body.Close()
	body, err := io.ReadAll(io.LimitReader(req.Body, MaxRequestBody+1))
	if err == nil && len(body) > MaxRequestBody {
		err = fmt.Errorf("body of the request exceeds %d bytes", MaxRequestBody)
	}
	return body, err
}

func response(req *http.Request, r *wire.HTTPResponse, body *body) *http.Response {
	resp := &http.Response{
		Status: strings.TrimSpace(strconv.Itoa(r.Status) + " " + http.StatusText(r.Status)), StatusCode: r.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(r.Headers)), Body: body, ContentLength: -1, Request: req,
	}
	for _, h := range r.Headers {
		resp.Header.Add(textproto.CanonicalMIMEHeaderKey(h.Name), h.Value)
	}
	if n, err := strconv.ParseInt(resp.Header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		resp.ContentLength = n
	}
	return resp
}

var errBodyClosed = errors.New("http: read on closed response body")
