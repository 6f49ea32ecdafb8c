// Package launch starts one command of a session: it puts together the command's
// environment, sandbox, network and shell snapshot, and hands the result to
// [proc.Supervisor].
//
// It promises:
//
//   - A command never runs with less confinement than its client asked for. If
//     this machine cannot enforce it, the start is an error.
//   - A network that was opened for a command ends with it.
//   - Whether the sandbox made a command fail (a denial) is decided before the exit
//     is in the log.
//
// Where a change belongs: launch.go has the order of a start and the environment;
// sandbox.go the sandbox and the denial; network.go the proxies; ask.go the
// questions to the client about hosts; decisions.go counters and notifications of
// decisions; snapshot.go the login shells; errors.go the errors.
//
// The package knows no connections, and of the session only [Owner]: three functions
// that it calls.
package launch
