// Package tethertest holds what tests of more than one package need: a tether server
// in this process, a raw client, a client that treats output and recovery exactly as the
// reference client does, and a cable between them that can be cut.
//
// Conn is the raw connection: it sends any message, keeps what arrives and waits for it.
// Client is a Conn whose failures end the test. RefClient recovers.
//
// Where a change belongs:
//
//	conn, client, client_process   the raw connection and client
//	refclient*                     the client that recovers
//	websocket, frames/             WebSocket frames, apart from internal/websocket
//	server, server_leaks, cable    a server, checks for leaks, a cable between server and client
//	scripted/                      a server that sends the messages of a test
//	need, need/, soak, home        conditions of tests: programs, rights, length, home directory
//	freezer/                       processes that cannot be killed
//	scenario/                      names of test rows from docs/scenarios.md
//	certs/, noproxy/, pattern, interleaved, upload, example   data and steps that several tests share
package tethertest
