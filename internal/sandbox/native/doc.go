// Package native is the sandbox backend that needs no program besides tether. It writes a [sandbox.Plan] as a script: a
// list of system calls, compiled in the server, that the first process of the sandbox carries out.
//
// That process executes the stage: a program of a few hundred bytes without a runtime, stack or library, written in
// assembly. It maps the script, carries out its records one after the other, executes the command as process 2, and
// stays as process 1, which reaps orphans and ends with the status of the command. A record is a system call whose
// arguments are numbers, addresses in the script, or results of earlier records; or one of a few pseudo calls: compare,
// jump, store, fail, exit. So a script can verify what it has built, and the command is executed only behind these
// checks.
//
// The first record that fails ends the start. The stage reports its address and the error, and [Script.Explain] turns
// them into a sentence about the step and the path.
//
// # Where a change belongs
//
// stage_linux_*.s: the stage. stage_linux.go: its text as bytes. image_linux.go: these bytes as a program that can be
// executed. record_linux.go: the form of a script. text_linux_test.go: a script as text, for golden tests. compile_linux.go:
// the order of the steps, from a plan to a script; sources_linux.go, mounts_linux.go (also the root directory),
// network_linux.go, privileges_linux.go, verify_linux.go and command_linux.go: the steps. explain_linux.go: failures.
// model_linux_test.go: the same interpreter in Go, against which the assembly is tested.
package native
