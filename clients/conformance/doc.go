// Package conformance tests the clients in Go, Python and TypeScript with the same script, so that they cannot drift apart. It has only
// tests: a server, a cable that loses messages and connections, and for each client a program that carries out commands, an agent.
// docs/clients.md describes the commands.
package conformance
