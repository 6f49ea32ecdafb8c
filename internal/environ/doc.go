// Package environ describes the executor as a command sees it: the variables of its
// environment (Build, Overlay), and its shell, directories and machine (Host,
// Info).
//
// Build and Info are pure: they work on values handed in, so the same request on
// the same host always gives the same answer. Only ThisHost reads the system.
//
// Where a change belongs: build.go has the environment under a policy; overlay.go
// the environment of the app-server's commands; pattern.go patterns for names of
// variables; host.go the description of the machine.
package environ
