//go:build !linux

package fsrpc

import "syscall"

var texts map[syscall.Errno]string
