// Package helper serves file requests inside a sandbox. It runs in this program, started again there, with a
// socket to the server as its standard input.
//
// The server sends the rules of the sandbox first. The helper applies them itself, to the real path of each
// file that it has opened. The mounts around it are the second protection; for names that do not exist yet
// the rules are the only one. A request whose effect would not reach the host is refused.
//
// Where a change belongs: message.go has the messages of both ends; main_linux.go the loop that serves them;
// guard_linux.go and copy_linux.go check each request against the rules and leave the work to package files;
// resolve_linux.go resolves paths.
package helper
