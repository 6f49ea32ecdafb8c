// Package placeholder keeps names uncreatable that do not exist. To cover a
// missing name inside a writable directory, a sandbox needs a mount point on
// the host: an empty directory or file that is there only while sandboxes use
// it. This package makes these placeholders, counts their users across all
// servers of one user, and takes them away again.
//
// It promises two things. A placeholder is never removed while a sandbox uses
// it: that would detach the mount inside, and the command there could create
// the name. And none is left behind: not after the last release, and not after
// a crash, once the next server opens the ledger.
//
// # The registry
//
// Each placeholder has a file in the ledger's directory, named by a hash of its
// path. It is a journal: the path, then "make" before
// the name is made, then "made" with its identity (see [entry]). A server that
// uses the placeholder holds a shared lock on the file, so a crash gives it
// back. Whoever gets the exclusive lock without waiting is alone with it: it may
// make the placeholder, or remove it and then the file. A lock counts only if
// the file still has its name, so a lock on a removed file is noticed. Some
// files outlive their placeholder, to be used again; those go with the ledger.
//
// What is removed must still be what was made, and empty: the same inode, born
// at the same time. All else belongs to somebody else and stays.
//
// Nothing is synced to disk: a crash of the server costs nothing, a power cut
// may leave an empty directory.
//
// # Other registries
//
// A server with another registry, perhaps of another user, takes a placeholder
// for a real directory. Its sandboxes build on it all the same, so it must not go
// under them. Therefore every ledger that uses a placeholder has a shared lock on
// the object itself, and so does every sandbox that builds on an empty directory
// or file, whoever made it. Nothing is removed or moved away without the
// exclusive lock. What cannot be removed for that reason is tried again: when
// this ledger releases something, every second or so, by a sweeper that stays when
// the server ends, and by the next server.
package placeholder

import (
	"errors"
	"time"
)

// maxHeld bounds the placeholders and guards that one ledger holds at a time. A
// placeholder costs two file descriptors and about half a kilobyte.
const maxHeld = 50_000

// maxIdle bounds the registry files that a ledger keeps for names which it does
// not hold now. The next command in a workspace wants the same names, and on
// many disks making and removing a file costs as much as the placeholder does.
const maxIdle = 256

// How long a ledger waits before it tries again to remove what another guards:
// at first, and at most.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 2 * time.Second
)

var (
	// ErrClosed is the answer of a ledger that was closed.
	ErrClosed = errors.New("placeholder ledger is closed")
	// ErrLimit says that a ledger holds as many placeholders as it may.
	ErrLimit = errors.New("too many placeholders")
	// ErrUnsupported says that this system has no placeholders.
	ErrUnsupported = errors.New("placeholders need Linux")
)

// A Want is a name to keep: an absolute, clean path without links, whose parent
// exists.
type Want struct {
	Path string
	Dir  bool // a directory, else a file

	// Exists: the name was there when the sandbox was planned, which builds on it.
	// Nothing is made then, and Dir does not matter: what may be the placeholder of
	// a ledger with another registry is guarded, so that it does not go.
	Exists bool
}

// A ChangedError says that a name is not what it was when the sandbox was
// planned: one that was missing exists in earnest, or one that existed is gone,
// has been replaced or is about to go. A new plan may succeed.
type ChangedError struct {
	Path string
	Err  error // what is there now
}

func (e *ChangedError) Error() string {
	return "changed since the sandbox was planned: " + e.Err.Error()
}
func (e *ChangedError) Unwrap() error { return e.Err }

// A KindError says that another sandbox holds the name as a file where a
// directory is wanted, or the reverse.
type KindError struct{ Want Want }

func (e *KindError) Error() string {
	if e.Want.Dir {
		return "wanted as a directory, but another sandbox holds it as a file"
	}
	return "wanted as a file, but another sandbox holds it as a directory"
}
