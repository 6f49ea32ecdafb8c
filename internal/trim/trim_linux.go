package trim

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Pages are the parts of this process's memory that have the pages of its program's file.
type Pages []part

type part struct{ from, size uintptr }

// Program finds the pages of this program. Parts of the program in which a debugger or a tracer has set breakpoints are
// left out: their pages are copies that would be lost.
func Program() (pages Pages) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil
	}
	mappings, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil
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
			pages = append(pages, part{uintptr(from), uintptr(to - from)})
		}
	}
	return pages
}

// Unmap takes the pages out of the memory of this process. Pages that are used again come back from the page cache of the
// kernel. It allocates nothing.
func (p Pages) Unmap() {
	for _, part := range p {
		unix.Syscall(unix.SYS_MADVISE, part.from, part.size, unix.MADV_DONTNEED)
	}
}
