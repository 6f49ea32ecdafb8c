// Package confined serves the file requests that ask for a sandbox.
//
// If a policy lets everything be read, this process reads; if everything may be written, this process serves all
// requests. All others are sent to a helper: this program inside the very sandbox that a command with this
// policy would get, without network. A helper is started when it is first needed and kept for the next requests,
// because a start takes longer than a hundred requests.
//
// Mounts show what was there when they were made. So before each request the pool compares the files that a
// helper's sandbox was built on with those of now; if one differs, the helper ends after its last request and a
// new one is started. A kept helper reserves no names on the host: it refuses to make those itself.
//
// Where a change belongs:
//
//   - pool_linux.go: which helper gets a request, how many there are and for how long.
//   - bind_linux.go, fingerprint_linux.go: what a policy means on this machine, and whether that has changed.
//   - worker_linux.go, socket_linux.go: the life of one helper, and its requests and answers.
//   - files_linux.go: the requests; special_linux.go: what this process may read itself.
//   - Package helper: the other end, inside the sandbox.
package confined
