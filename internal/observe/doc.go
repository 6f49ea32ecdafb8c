// Package observe says what a process is doing at a moment, above all why it is
// silent: it waits for input, it is stopped, no reader empties its pipe. It also
// measures what processes use.
//
// LookAt collects what the system shows of the child of a [proc.Process] and of all
// that it started; it needs no privileges, and leaves out what it may not see. Decide
// makes a verdict of that evidence and touches nothing, so that tests can compare. A
// verdict is an observation, not a fact: the next moment may be different, and a
// process that cannot be seen may be the reason of everything.
//
// LookAt sees states, system calls and descriptors only. A verdict tells a process's
// number, the name of its program and what it waits for: no arguments, no environment,
// no paths.
//
// Where a change belongs: look_linux.go and files_linux.go collect, evidence.go has
// what is collected, verdict.go decides, text.go has the sentences, usage.go measures.
package observe
