// Package keep is the keeper: a small process that outlives the server, holds what the server must not lose, and starts
// the server again when it dies. docs/keeper.md explains how the two work together.
//
// A program calls [Begin] and [Beginning.Become], and is the keeper from then on, with the same pid. The keeper starts the program again as its
// worker, which calls [Connect]. The worker lets the keeper hold copies of descriptors ([Worker.Hold]), sorted into slots, and
// the next worker is given all of them. The keeper does not know what they are, and parses nothing but the messages
// of this package.
//
// It promises that a message is carried out once the worker's call has returned, whatever happens to the worker then; that
// a descriptor which is held stays open until the worker drops it or the keeper ends; that the number of an adopted
// process is not used again before the worker has said [Worker.Reap]; and that everything ends when the keeper is told to
// stop, also without a worker.
//
// The keeper runs on the main thread, which is locked. After an upgrade it executes the new program, and then runs
// while the packages of that are being initialized. It allocates nothing per
// message except for its table, so the garbage collector is off. A goroutine of its own only passes signals on.
//
// Where a change belongs:
//
//   - messages.go: the table of messages, for both sides; keep.go: what both sides and other programs see
//   - keeper_linux.go: what the keeper knows, its loop, and what each message does; table_linux.go: slots and descriptors
//   - workers_linux.go: start and end of workers, pauses, children that have ended, the end of the server
//   - upgrade_linux.go: another program for the worker, and for the keeper itself; state_linux.go: the state that a keeper
//     hands to its successor
//   - suspend_linux.go: signals of job control, and those that were ignored at the start
//   - main_linux.go: the start of the keeper; become_linux.go: the program that becomes one; spawn_linux.go: its children
//   - system_linux.go: messages on a socket, exits of children, the log; probe_linux.go: what a system must have
//   - worker_linux.go: the worker's side
package keep
