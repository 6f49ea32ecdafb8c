package main

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapProgram takes the pages of this program's file out of the memory of this process.
// Pages that are used again come back from the page cache of the kernel. Parts of the
// program in which a debugger or a tracer has set breakpoints are left alone: their pages
// are copies that would be lost.
func unmapProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	mappings, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	var from, to uint64 // of the mapping that the lines describe; none if to is 0
	for line := range strings.Lines(string(mappings)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"):
			from, to = 0, 0
			if strings.HasSuffix(line, " "+program+"\n") && (fields[1] == "r-xp" || fields[1] == "r--p") {
				begin, end, _ := strings.Cut(fields[0], "-")
				from, _ = strconv.ParseUint(begin, 16, 64)
				to, _ = strconv.ParseUint(end, 16, 64)
			}
		case to > 0 && len(fields) > 1 && fields[0] == "Anonymous:" && fields[1] == "0":
			unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr(to-from), unix.MADV_DONTNEED)
		}
	}
}
