// Package tethertest holds what tests of more than one package need: a tether server
// in this process, a raw client, a client that treats output and recovery exactly as the
// reference client does, and a cable between them that can be cut.
//
// Conn is the raw connection: it sends any message, keeps what arrives and waits for it.
// Client is a Conn whose failures end the test. RefClient recovers.
package tethertest
