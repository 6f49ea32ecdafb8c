// Package sandboxhost runs and explains sandboxes on this machine without a server: it is the
// engine of `tether sandbox run` and `tether sandbox explain`.
//
// A [Host] promises what a server promises: a command runs in the sandbox that was asked for, or
// not at all. Placeholders and the state directory are shared with the servers of this user.
//
// Where a change belongs:
//
//	host.go           the state directory, the supervisor and the confiner behind all of it
//	profile.go        what is allowed, by the name of a profile or from a file
//	command.go        one command on our own standard streams
//	network.go        the network of such a command, if it may reach some hosts only
//	refusals.go       which hosts a command was refused, for people; also for commands on a server
//	explain.go        how a sandbox would be built, and what it makes of paths
//	explain_hosts.go  and of hosts
//
// Texts for people name the flags of cmd/tether.
package sandboxhost
