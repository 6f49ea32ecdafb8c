// Package session keeps one agent's state across connections: its processes,
// who is attached, and when it expires.
//
// A session knows no connection. It asks a Peer for the three things it needs:
// to push the events of a process, to say whether it is still there, and to go
// away when another peer has taken its place.
package session
