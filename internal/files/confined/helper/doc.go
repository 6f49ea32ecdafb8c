// Package helper is what serves file requests from within a sandbox: our own
// program, re-executed there, with a socket to the server as its standard input.
//
// It is told the rules of the sandbox first and applies them itself, to the real
// path of what it has opened. The mounts around it are the second wall, and for
// names that do not exist yet the rules are the only one. A request whose effect
// would not reach the host is refused.
package helper
