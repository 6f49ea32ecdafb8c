// Package observe says what a process is doing at a moment, above all why it is
// silent: it waits for input, it is stopped, somebody does not read its pipe.
//
// It has two halves. Look collects what the system shows of the processes of one
// tree; it needs no privileges, and what it may not see it leaves out. Decide makes
// a verdict of that and touches nothing, so that tests can compare. A verdict is an
// observation, not a fact: the next moment may be different, and a process that is
// not allowed to be looked at may be the reason of everything.
//
// No more of a process is looked at than states, system calls and descriptors, and no
// more is told than its number, the name of its program, and what it waits for: no
// arguments, no environment, no paths.
package observe
