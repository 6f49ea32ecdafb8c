// Package wire is what travels: the JSON-RPC envelope, the methods with their
// parameters and results, path URIs and error codes. It does no I/O.
//
// Decoding is strict where the protocol is: member names are case sensitive,
// a duplicate member, an absent required field or a null where none is allowed
// is an error whose text says what was expected.
package wire
