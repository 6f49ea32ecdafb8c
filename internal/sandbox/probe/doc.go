// Package probe tries things that a sandbox should stop, one system call at a time:
// `tether be-child probe NAME …`.
//
// The product has the few probes by which `tether doctor` tests the sandboxes of this machine, and "ok", the trial
// command of package confine. The attacks, probes that only tests use, are in the files attack_…_test.go. The test
// program of this package is therefore the program that has them all: it takes the same command line, and the
// conformance tests build it with `go test -c` and run it inside sandboxes. If the doctor comes to need an attack,
// move it to one of the other files.
//
// A probe that succeeds prints "ok", or the facts it was asked for, and exits 0.
// A probe that fails prints "NAME: EPERM", with the name of the errno, and exits 1. If the call that failed is
// not the one that the probe is named for but one that leads there, that call follows, as
// in "connect-tcp: EPERM socket". None of the words by which a denial is guessed
// from a command's output appear in that text.
//
// Probes are harmless without a sandbox, also for root. Those that take paths
// change nothing but those paths, and overwrite nothing. Calls that would reach
// further have arguments that the kernel refuses, but only once it has found that
// the caller may make such a call: that refusal is printed as "ok". Or they run in
// a forked child, and what they do ends with it.
//
// main_linux.go has the table and the command line, fork_linux.go the scripts of system calls for a forked child.
package probe
