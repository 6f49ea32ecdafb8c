// Package web makes the HTTP requests that a client asks for with
// http/request. It knows no connection to that client: the caller hands in the
// parameters and carries the answer.
//
// The bytes of a request are the client's: its method and header names (lower
// case), in its order, repeats included. Only accept, host and content-length
// are added. net/http sorts and renames headers and forgets the order of the
// answer's, so this package writes and reads HTTP/1.1 itself. It speaks no
// other version.
//
// Promises: a request ends with its context, its timeout or the client, and
// then its socket is closed at once; what a peer can make this package keep in
// memory is bounded by the constants of this package; every error is an *Error
// with the code and text that goes on the wire.
package web
