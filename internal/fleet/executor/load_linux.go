package executor

import (
	"fmt"
	"os"
	"runtime"
)

// machineLoad is how many processes wanted to run in the last minute, per processor.
func machineLoad() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return 0
	}
	return load / float64(runtime.NumCPU())
}
