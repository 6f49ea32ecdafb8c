//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// idleTime is how long a server has nothing to do before its memory is measured.
const idleTime = 3 * time.Second

// cold measures a server from its start to its first answer.
func cold(t *trial) error {
	c, err := connectWith(firstAnswerBuffer, t.url, "")
	if err != nil {
		return err
	}
	defer c.close()
	t.took("url", t.ready, time.Millisecond)
	t.took("first", time.Since(t.began), time.Millisecond)
	return nil
}

// idle measures the memory of a server that no client has used, and the size of its program.
func idle(t *trial) error {
	time.Sleep(idleTime)
	resident, err := t.resident()
	if err != nil {
		return err
	}
	program, err := os.Stat(t.cmd.Path)
	if err != nil {
		return err
	}
	t.add("idle", float64(resident)/(1<<20))
	t.add("size", float64(program.Size())/(1<<20))
	return nil
}

// resident returns the resident memory of the server in bytes.
func (s *server) resident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	return parseResident(string(status))
}

// parseResident reads a file /proc/PID/status.
func parseResident(status string) (int64, error) {
	_, rest, _ := strings.Cut(status, "\nVmRSS:")
	var kib int64
	if _, err := fmt.Sscanf(rest, "%d kB", &kib); err != nil {
		return 0, fmt.Errorf("no VmRSS in %q", status)
	}
	return kib << 10, nil
}
