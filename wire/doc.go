// Package wire is what travels: the JSON-RPC envelope, the methods with their
// parameters and results, path URIs and error codes. It does no I/O.
//
// Parse checks a whole message in one pass and finds its members; Decode reads
// parameters or results into the structs of this package; the Append functions
// write messages.
//
// Decoding is strict where the protocol is: member names are case sensitive,
// a duplicate member, an absent required field or a null where none is allowed
// is an error whose text says what was expected.
package wire
