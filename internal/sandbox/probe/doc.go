// Package probe tries things that a sandbox should stop, or looks at what a
// sandbox has made, one system call at a time: `tether be-child probe NAME …`.
//
// Tests run probes inside sandboxes and compare what they say with a table, and
// `tether doctor` runs a few to see that this machine keeps what it promises.
//
// A probe that succeeds prints "ok", or the facts it was asked for, and exits 0.
// One that fails prints "NAME: EPERM", the name of the errno, and exits 1; if not
// the call it is named for failed but one that leads there, that call follows, as
// in "connect-tcp: EPERM socket". None of the words by which a denial is guessed
// from a command's output appear in that text.
//
// Probes are harmless without a sandbox, also for root. Those that take paths
// change nothing but those paths, and overwrite nothing. Calls that would reach
// further have arguments that the kernel refuses, but only once it has found that
// the caller may make such a call: that refusal is printed as "ok". Or they run in
// a forked child, and what they do ends with it.
package probe
