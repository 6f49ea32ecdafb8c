// Package web makes the HTTP requests that a client asks for with http/request,
// over net/http. It knows no connection to that client: the caller hands in the
// parameters and carries the answer.
//
//   - target.go, host.go: URLs, read as browsers do.
//   - request.go, environment.go: the parameters, and the request of each hop.
//   - client.go: a request with its redirects.
//   - transport.go: connections: proxies, TLS, HTTP/2, limits.
//   - response.go: the answer, whole or piece by piece.
//   - errors.go: codes and texts of errors.
//
// A request has the method and the headers of its client. Only accept, host and
// content-length are added; no cookies, no decompression. net/http decides about
// the order of headers and about what it takes for an answer.
//
// Promises: a request ends with its context, its timeout or the client, and then
// its socket is closed at once (its stream, with HTTP/2); what a peer can make
// this package keep in memory is bounded by the constants of this package; a
// request that is not safe to repeat is never sent twice; every error is an
// *Error with the code and text that goes on the wire.
package web
