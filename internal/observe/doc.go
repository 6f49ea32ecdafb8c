// Package observe says what a process is doing at a moment, above all why it is
// silent: it waits for input, it is stopped, no reader empties its pipe. It also
// measures the CPU time and memory of processes.
//
// LookAt collects evidence about the child of a [proc.Process] and everything
// that it started. It needs no privileges, and leaves out what it may not see. Decide
// derives a verdict from that evidence and touches nothing, so that tests can compare. A
// verdict is an observation, not a fact: the next moment may be different, and the
// cause may be a process that cannot be seen.
//
// LookAt reads only states, system calls and descriptors. A verdict contains a process's
// number, the name of its program and what it waits for: no arguments, no environment,
// no paths.
//
// Where a change belongs: evidence.go has the types of the evidence; look_linux.go collects
// it, with call_linux*.go for system calls and files_linux.go for descriptors and pipes;
// look_other.go is for other systems; verdict.go decides; text.go has the sentences;
// usage*.go measures.
package observe
