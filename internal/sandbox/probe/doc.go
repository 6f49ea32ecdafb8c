// Package probe tries things that a sandbox should stop, one system call at a time:
// `tether be-child probe NAME …`.
//
// The product has the few probes by which `tether doctor` tests the sandboxes of this machine. The attacks, probes that
// only tests use, are in the files attack_…_test.go. The test program of this package is therefore the program that has
// them all: it takes the same command line, and the conformance tests build it with `go test -c` and run it inside
// sandboxes. If the doctor comes to need an attack, move it to one of the other files.
//
// A probe that succeeds prints "ok", or the facts it was asked for, and exits 0. A probe that fails prints
// "NAME: EPERM", with the name of the errno, and exits 1. If an earlier call failed, and not the one that the
// probe is named after, the name of that call follows, as in "connect-tcp: EPERM socket". The output contains
// none of the phrases by which package denial recognises a denial.
//
// Probes are harmless without a sandbox, also for root. A probe that takes paths
// changes only those paths, and overwrites nothing. A call that would have a wider
// effect has arguments that the kernel refuses, but only after it has checked that
// the caller may make such a call: that refusal is printed as "ok". Other probes
// run in a forked child, and their effects end with it.
//
// main_linux.go has the table and the command line, fork_linux.go the scripts of system calls for a forked child.
package probe
