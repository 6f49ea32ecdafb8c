package oserr

import "syscall"

// texts are the errors for which the protocol has other words than Go.
var texts = map[syscall.Errno]string{
	syscall.EIO:          "I/O error",
	syscall.ENOMEM:       "Out of memory",
	syscall.EBUSY:        "Resource busy",
	syscall.EXDEV:        "Cross-device link",
	syscall.EMFILE:       "No file descriptors available",
	syscall.ENOTTY:       "Not a tty",
	syscall.ESPIPE:       "Invalid seek",
	syscall.ENAMETOOLONG: "Filename too long",
	syscall.ELOOP:        "Symbolic link loop",
	syscall.EOVERFLOW:    "Value too large for data type",
	syscall.ENOTSUP:      "Not supported",
	syscall.ESTALE:       "Stale file handle",
	syscall.EDQUOT:       "Quota exceeded",
	syscall.ETIMEDOUT:    "Operation timed out",
}
