// Package web makes HTTP requests from the network of an executor, through a
// [client.Client]:
//
//	browser := http.Client{Transport: web.Of(c)}
//
// A request is never sent twice: if its answer is lost, the error is [client.ErrAmbiguous].
// The body of a response ends with its connection.
//
// Where a change belongs: web.go translates requests and responses, body.go has the bodies
// of responses, which arrive in pieces.
package web
