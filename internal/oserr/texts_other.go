//go:build !linux

package oserr

import "syscall"

// texts are the errors that the protocol words otherwise than Go does.
var texts map[syscall.Errno]string
