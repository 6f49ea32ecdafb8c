//go:build linux || darwin

package account

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// blockSize is the unit in which the system counts reads and writes.
const blockSize = 512

// OfRusage returns the figures of a wait.
func OfRusage(r *unix.Rusage) Figures {
	f := Figures{User: time.Duration(r.Utime.Nano()), System: time.Duration(r.Stime.Nano()), Largest: uint64(max(0, r.Maxrss))}
	if runtime.GOOS == "linux" {
		f.Largest <<= 10 // elsewhere it is in bytes, and reads and writes are operations of any size
		f.Read, f.Written, f.IO = uint64(max(0, r.Inblock))*blockSize, uint64(max(0, r.Oublock))*blockSize, true
	}
	return f
}

// OwnMemory is at least the most memory that this program has had so far; 0: not known.
func OwnMemory() uint64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return OfRusage(&r).Largest
}
