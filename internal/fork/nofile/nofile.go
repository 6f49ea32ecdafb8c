// Package nofile has the limit of open files that this program was started with.
//
// Package syscall raises the soft limit when it is initialised, and keeps the original to itself.
// This package reads the limit before that: it imports nothing, and the packages of a program whose
// imports are initialised are initialised in the order of their import paths (Go specification,
// "Program initialization"), so "github.com/…" comes before "syscall". It must therefore never
// import a package.
package nofile

// Soft and Hard are the limits; both are 0 if they are unknown.
var Soft, Hard = read()
