// Package worker connects a server with its keeper (package keep): what a server keeps outside of its
// process, so that the next worker goes on where the last one has died.
//
// [NewState] makes it once, in the program that then becomes the keeper. [Receive] opens it in each worker, and
// gives the server the small interface through which it talks to the keeper ([proc.Keeper]). A server that keeps nothing
// but its socket has [NewListener] and [ReceiveListener] instead.
//
// Where a change belongs: a descriptor that belongs to the whole server gets its number here; those of a
// process are numbered in package proc. What is in the state is decided by the packages that write it: arena has its form,
// session and proc its content.
package worker
