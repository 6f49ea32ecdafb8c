// Package stage is the last stage of a sandboxed start. It runs inside the sandbox, as this program started again.
// It verifies that the sandbox is as planned, gives the command its descriptors, session and terminal, and becomes
// the command.
//
// The server passes a [Config] in a descriptor. On a socket the stage reports that the command was executed, or
// why not.
//
// Where a change belongs: stage.go has the Config and its encoding; main_linux.go the steps of the stage,
// mounts_linux.go the last mounts, verify_linux.go the checks, listen_linux.go the listeners of a managed network;
// report.go and await_linux.go are the two ends of the socket.
package stage
