// Package placeholder prevents the creation of names that do not exist. To
// cover a missing name inside a writable directory, a sandbox needs a mount
// point on the host: an empty directory or file that exists only while
// sandboxes use it. This package makes these placeholders, counts their users
// across all servers of one user, and removes them again. It does not choose the
// names: package sandbox puts them into a plan (compile.go), and package confine
// passes them to [Ledger.Acquire].
//
// It promises two things. A placeholder is never removed while a sandbox uses
// it: that would detach the mount inside, and the command there could create
// the name. And no placeholder is left behind: not after the last release, and
// not after a crash, once the next server opens the ledger.
//
// # The registry
//
// Each placeholder has a file in the ledger's directory, named by a hash of its
// path. The file is a journal: the path, then "make" before the name is made,
// then "made" with its identity (see [entry]). A server that uses the
// placeholder holds a shared lock on the file, which ends if the server crashes.
// A server that gets the exclusive lock without waiting is the only user: it may
// make the placeholder, or remove it and then the file. A lock counts only if
// the file still has its name, so a lock on a removed file is noticed. Some
// files are kept after their placeholder was removed, to be used again, until
// the ledger is closed.
//
// A placeholder is removed only if it is empty and still the inode that was
// made: the same number, born at the same time. Everything else belongs to
// other programs and stays.
//
// Nothing is synced to disk: a crash of the server costs nothing, a power cut
// may leave an empty directory.
//
// # Other registries
//
// A server with another registry, perhaps of another user, cannot distinguish a
// placeholder from a real directory. Its sandboxes depend on it all the same, so
// it must not be removed under them. Therefore every ledger that uses a
// placeholder has a shared lock on the file or directory itself. A sandbox that
// depends on an existing empty directory or file takes such a lock too: a guard.
// Nothing is removed or moved away without the exclusive lock. If a placeholder is
// still guarded, its ledger tries again to remove it: whenever a lease is released,
// and at least every two seconds. When the server is closed, it starts a sweeper, a
// process that goes on trying. The next server tries too.
//
// # Where a change belongs
//
// ledger_linux.go: leases, and making and removing placeholders. registry_linux.go,
// entry.go: registry files, their locks and their content; these protect a
// placeholder from servers that share the registry. locked_linux.go: locks on
// placeholders, and guards; these protect it from all other servers.
// direntry_linux.go: system calls on one name. stash_linux.go: directories kept for
// the next use. sweep_linux.go: removing what a crashed server left, and the sweeper.
// retry_linux.go: later attempts of a running server to remove a placeholder.
// holds_linux.go: whether a name is a placeholder. ledger_other.go: other systems.
package placeholder

import (
	"errors"
	"time"
)

// maxHeld bounds the placeholders and guards of one ledger at a time. A
// placeholder costs two file descriptors and about half a kilobyte.
const maxHeld = 50_000

// maxIdle bounds the registry files that a ledger keeps for names without a
// placeholder. The next command in a workspace needs the same names, and on
// many disks making and removing a file costs as much as making and removing
// the placeholder.
const maxIdle = 256

// How long a ledger waits before it tries again to remove a placeholder that
// another ledger guards: at first, and at most.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

var (
	// ErrClosed is returned by a ledger that was closed.
	ErrClosed = errors.New("placeholder ledger is closed")
	// ErrLimit means that a ledger has as many placeholders as it may.
	ErrLimit = errors.New("too many placeholders")
	// ErrUnsupported means that this system has no placeholders.
	ErrUnsupported = errors.New("placeholders need Linux")
)

// A Want is a name to occupy: an absolute, clean path without links, whose
// parent exists.
type Want struct {
	Path string
	Dir  bool // a directory, else a file

	// Exists: the name existed when the sandbox was planned, and the sandbox
	// depends on it. Then nothing is made, and Dir does not matter. If the name may
	// be the placeholder of a ledger with another registry, it is guarded, so that
	// it is not removed.
	Exists bool
}

// A ChangedError means that a name has changed since the sandbox was planned: a
// missing name was created by another program, or an existing one was removed,
// was replaced or is about to be removed. A new plan may succeed.
type ChangedError struct {
	Path string
	Err  error // the present state
}

func (e *ChangedError) Error() string {
	return "changed since the sandbox was planned: " + e.Err.Error()
}
func (e *ChangedError) Unwrap() error { return e.Err }

// A KindError means that another sandbox holds the name as a file where a
// directory is wanted, or the reverse.
type KindError struct{ Want Want }

func (e *KindError) Error() string {
	if e.Want.Dir {
		return "wanted as a directory, but another sandbox holds it as a file"
	}
	return "wanted as a file, but another sandbox holds it as a directory"
}
