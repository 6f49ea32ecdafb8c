// Package trim reduces the memory of a process that has started and now waits: a server, or its keeper.
//
// trim_linux.go has the work; on other systems nothing is done.
package trim
