// Package launch starts one command of a session: it puts together the command's
// environment, sandbox, network and shell snapshot, and hands the result to
// [proc.Supervisor].
//
// It promises:
//
//   - A command never runs with less confinement than its client asked for. If
//     this machine cannot enforce it, the start is an error. If only the way out of a
//     managed network is missing, the start succeeds, but the command is not executed:
//     the process prints the reason and fails.
//   - A network that was opened for a command ends with it. Of a command that was adopted, it is the same network as before,
//     or none.
//   - Whether the sandbox made a command fail (a denial) is decided before the exit
//     is in the log.
//
// Where a change belongs: launch.go has the order of a start, the environment, and
// whether two starts are the same; adopt.go a command that another program has started;
// sandbox.go the sandbox and the denial; network.go
// the proxies, and the variables that lead to them; ask.go the questions to the client
// about hosts; decisions.go counters and notifications of decisions; snapshot.go which
// commands share a shell snapshot, and which variables they take from it; errors.go the
// errors.
//
// Four packages do the work: environ makes the environment; confine builds the sandbox,
// and finds out whether this machine can enforce it; netproxy has the proxies;
// shellsnap captures and restores the state of a shell.
//
// The package knows no connections, and of the session only [Owner]: three functions
// that it calls.
package launch
