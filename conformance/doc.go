// Package conformance holds the behaviour that a confined command must see, as
// one table of rows with an id each, and runs every row through the wire against
// a real server: as root and as an ordinary user, on a real kernel.
//
// A row says what the client asks for, what the command tries, and what must
// come of it: exit code, verdict, output, and the state of the machine
// afterwards. Where we behave better than the reference on purpose, the row
// expects the better behaviour and notes the other.
//
// The table knows no backend. To run it against another one, or against another
// server, give its command line:
//
//	go test ./conformance -args -flags '--some-flag value'
//	go test ./conformance -args -server '/path/to/server --listen stdio' -reference
//
// Rows that note a difference are left out with -reference.
package conformance
