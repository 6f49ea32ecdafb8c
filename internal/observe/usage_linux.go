package observe

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/tetherexec/tether/internal/proc"
)

// measure reads a few small files per process and member, and without cgroups the
// process table once, whatever the number of processes.
func measure(list []*proc.Process) map[*proc.Process]Usage {
	found := make(map[*proc.Process]Usage, len(list))
	finder := proc.NewFinder()
	for _, p := range list {
		var sum Usage
		known := false
		for _, pid := range finder.Members(p) {
			if one, there := readUsage(pid); there {
				sum.CPU += one.CPU
				sum.Memory += one.Memory
				known = true
			}
		}
		if total, counted := p.CPU(); counted {
			sum.CPU = total
		}
		if known {
			found[p] = sum
		}
	}
	return found
}

// readUsage reads the usage of one process, with the CPU time of its children that
// it has waited for.
func readUsage(pid int) (Usage, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return Usage{}, false
	}
	number := func(i int) uint64 { n, _ := strconv.ParseUint(string(fields[i]), 10, 63); return n }
	ticks := number(11) + number(12) + number(13) + number(14)
	return Usage{time.Duration(ticks) * proc.ClockTick, number(21) * uint64(os.Getpagesize())}, true
}
