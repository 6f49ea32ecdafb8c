// Package confined serves the file requests that ask for a sandbox.
//
// What the policy leaves open is done by this process. Everything else is sent to
// a helper: our own program inside the very sandbox that a command with this policy
// would get, without network. A helper is started when it is first needed and kept
// for the next requests, because starting one takes longer than a hundred requests.
//
// Mounts are a picture of the moment at which they were made. So before each use the
// files that a helper's sandbox was built on are looked at, and if one is not what
// it was, the helper ends after its last request and a new one is started. A kept
// helper holds no names on the host: it refuses to make those itself.
package confined
