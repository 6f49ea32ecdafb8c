// Package confined serves the file requests that ask for a sandbox.
//
// If a policy lets everything be read, this process reads; if everything may be written, this process serves all
// requests. All other requests go to a helper: this program inside the same sandbox that a command with this
// policy would get, without network. A helper is started when it is first needed and kept for the next requests,
// because a start takes longer than a hundred requests.
//
// Mounts show the files that existed when they were made. So before each request the pool compares the files
// that a helper's sandbox was built on with the present ones; if one differs, the helper ends after its last
// request and a new one is started. A kept helper has no placeholders on the host: it refuses by itself to
// create those names.
//
// Where a change belongs:
//
//   - pool_linux.go: which helper gets a request, how many there are and for how long.
//   - bind_linux.go, fingerprint_linux.go: the meaning of a policy on this machine, and whether it has changed.
//   - worker_linux.go, socket_linux.go: the life of one helper, and its requests and answers.
//   - config.go: the configuration, and intents that need no sandbox.
//   - files_linux.go: the requests; special_linux.go: which files this process may read itself.
//   - Package helper: the other end, inside the sandbox.
package confined
