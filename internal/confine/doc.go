// Package confine runs commands in the sandboxes that clients ask for. It
// applies package sandbox to this machine: an intent is bound and compiled, and
// a backend carries out the plan, in the way that was found to work here. The
// result is a [proc.Spec] that runs the command inside, or an error that says
// what is missing. A command never runs with less than its plan.
//
// # Where a change belongs
//
// confine.go: the Confiner, and the order of a start. prepare_linux.go: building
// one sandbox. native_linux.go: by the native backend. gate_linux.go: connecting a managed network. probe.go: when this
// machine is probed, and when a failed probe is repeated. probe_linux.go: the ways
// to build a sandbox that a probe tries, and the advice if none works. support.go:
// the backends, the result of a probe, and the error for a command if no sandbox works.
// image_linux.go: the files of tether and bubblewrap that are executed. loader.go:
// whether a program is linked dynamically. hidden_linux.go: the paths that every
// sandbox hides. prepare_other.go: other systems.
//
// # Elsewhere
//
// Package native: the script of a native sandbox, and the stage that carries it
// out. Package bwrap: where bubblewrap is searched for, which versions will do, and its
// arguments. Package stage: the program inside a sandbox of bubblewrap that gives the command
// its descriptors and becomes the command. The descriptors on the way there are in
// [proc.Launcher]. Package sandbox: the rules, and the beginning of every error
// text ([sandbox.UnenforceableError]).
package confine
