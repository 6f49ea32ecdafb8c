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
package placeholder

import "errors"

// maxHeld bounds the placeholders that one ledger holds at a time. Each costs a
// file descriptor and about half a kilobyte.
const maxHeld = 50_000

// maxIdle bounds the registry files that a ledger keeps for names which it does
// not hold now. The next command in a workspace wants the same names, and on
// many disks making and removing a file costs as much as the placeholder does.
const maxIdle = 256

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
}

// A RealError says that a name which was to be held exists for another reason.
// It was missing when the sandbox was planned, so the plan is out of date.
type RealError struct{ Path string }

func (e *RealError) Error() string { return "the name exists and is no placeholder" }

// A KindError says that another sandbox holds the name as a file where a
// directory is wanted, or the reverse.
type KindError struct{ Want Want }

func (e *KindError) Error() string {
	if e.Want.Dir {
		return "wanted as a directory, but another sandbox holds it as a file"
	}
	return "wanted as a file, but another sandbox holds it as a directory"
}
