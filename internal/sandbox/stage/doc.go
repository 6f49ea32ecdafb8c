// Package stage is the last stage of a sandboxed start. It runs inside the sandbox, in this program started again:
// it makes sure that the sandbox is what it was meant to be, gives the command its descriptors, session and
// terminal, and becomes the command.
//
// The server passes a [Config] in a descriptor, and hears on a socket how it went: the command was executed, or
// why not.
//
// Where a change belongs: stage.go has the Config and its encoding; main_linux.go the steps of the stage,
// mounts_linux.go the last mounts, verify_linux.go the checks, listen_linux.go the listeners of a managed network;
// report.go and await_linux.go are the two ends of the socket.
package stage
