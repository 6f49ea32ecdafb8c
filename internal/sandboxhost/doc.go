// Package sandboxhost runs and explains sandboxes on this machine without a server: it is the
// engine of `tether sandbox run` and `tether sandbox explain`.
//
// A [Host] gives the same promise as a server: a command runs in the requested sandbox, or not
// at all. Placeholders and the state directory are shared with the servers of this user.
//
// Where a change belongs:
//
//	host.go           the state directory, the supervisor and the confiner behind everything
//	profile.go        the permissions, by the name of a profile or from a file
//	command.go        one command on the standard streams of this program
//	network.go        the managed network of such a command
//	refusals.go       reports of refused hosts for people; also for commands on a server
//	explain.go        how a sandbox would be built, and the access to paths in it
//	explain_hosts.go  the access to hosts in it
//
// Texts for people name the flags of cmd/tether.
package sandboxhost
