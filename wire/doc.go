// Package wire has everything that is on the wire: the JSON-RPC envelope, the methods with
// their parameters and results, path URIs and error codes. It does no I/O.
//
// Parse checks a whole message in one pass and finds its members; Decode reads
// parameters or results into the structs of this package; the Append functions
// write messages.
//
// Decoding is strict where the protocol is: member names are case sensitive. A duplicate
// member, an absent required field, or a null where it is not allowed is an error whose text
// says what was expected.
//
// Where a change belongs:
//
//   - Messages: message.go is the envelope, scan.go the JSON scanner, decode.go and encode.go
//     the codec, output.go the fast path for output, types.go types that decode themselves,
//     error.go codes and reasons of errors.
//   - Methods: protocol.go has the reference's methods about processes and the rules of
//     decoding, files.go, http.go, network.go and environment.go the reference's other methods;
//     tether.go, inspect.go, upload.go and fleet.go tether's own; appserver.go those of the app-server.
//   - The tables of all requests and notifications: calls.go, from which `make schema` writes the schema.
//   - Sandboxes: sandbox.go, and draft.go for the form of older clients.
//   - Paths: path.go and fileurl.go.
package wire
