// Package web makes the HTTP requests that a client asks for with http/request,
// over net/http. It does not know the connection to that client: the caller passes the
// parameters in and sends the answer.
//
//   - target.go, host.go: URLs, parsed as browsers do.
//   - request.go, environment.go: the parameters, and the request of each hop.
//   - client.go: a request with its redirects.
//   - transport.go: connections: proxies, TLS, HTTP/2, limits.
//   - response.go: the answer, whole or piece by piece.
//   - errors.go: codes and texts of errors.
//
// A request has the method and the headers of its client. Only accept, host and content-length are
// added. There are no cookies and no decompression. net/http decides about the order of headers
// and about which answers it accepts.
//
// Promises:
//
//   - A request ends with its context, its timeout or the client. Then its socket is closed at once
//     (with HTTP/2, its stream).
//   - The memory that a peer can make this package use is bounded by its constants.
//   - A request that is not safe to repeat is never sent twice.
//   - Every error is an *Error with the code and text for the wire.
package web
