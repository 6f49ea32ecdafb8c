// Package peer decides whether the process at the other end of a Unix socket may be a
// client of this process.
//
// A socket file is protected by its mode, which does not stop a confined command of the
// same user: it can see the file, and a read-only mount does not prevent a connect. Every
// sandbox of tether has a pid namespace of its own, and nearly all have a user namespace.
// So a client is accepted only if it is in the pid and user namespaces of this process.
//
// Check fails closed: a client whose namespaces cannot be found out is refused. It is in
// check_linux.go; on other systems (check_other.go) it accepts every client. Owner is for requests that not every client
// may send: it accepts only clients of this user, and none on other systems.
package peer

import "errors"

// ErrRefused is wrapped by all errors of Check and Owner.
var ErrRefused = errors.New("client refused")
