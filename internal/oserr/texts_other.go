//go:build !linux

package oserr

import "syscall"

// texts are the errors for which the protocol has other words than Go.
var texts map[syscall.Errno]string
