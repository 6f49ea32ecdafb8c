// Package launch starts one command of a session: it puts together the command's
// environment, sandbox, network and shell snapshot, and hands the result to
// [proc.Supervisor].
//
// What it promises:
//
//   - A command never runs with less confinement than its client asked for. What
//     this machine cannot enforce is an error.
//   - A network that was opened for a command ends with it.
//   - The verdict whether the sandbox made a command fail is there before the exit
//     is in the log.
//
// Where a change belongs: launch.go has the order of a start and the environment,
// sandbox.go the sandbox and the verdict, network.go the proxies, ask.go the
// questions to the client about hosts, decisions.go the count of all decisions, snapshot.go the
// login shells.
//
// The package knows neither connections nor what a session keeps. It asks the
// session for three things, see [Owner].
package launch
