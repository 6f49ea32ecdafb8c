package homeserver

import (
	"io/fs"
	"syscall"
)

const noFollow = 0

// detachedProcess is DETACHED_PROCESS: no console.
const detachedProcess = 0x8

func detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: detachedProcess | syscall.CREATE_NEW_PROCESS_GROUP}
}

// Windows has no owner and mode to check: the access list of the profile protects
// the directory.

func ownedByUs(fs.FileInfo) bool { return true }
func open(fs.FileInfo) bool      { return false }
