//go:build mcp || fleet || !split

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

func printProcesses(w io.Writer, processes []listedProcess, hosts bool, now time.Time, width int) error {
	head := []string{"NAME", "SESSION", "STATE", "DOING", "PID", "AGE", "CPU", "MEMORY", "WAITING", "COMMAND"}
	t := terminal.NewTable(w, width, withHost(hosts, "HOST", head)...)
	for i := range processes {
		p := &processes[i].ProcessInfo
		cpu, memory := cpuText(p.CPUMs), bytesText(p.MemoryBytes)
		if u := p.TetherUsage; u != nil && p.CPUMs == nil {
			cpu, memory = endedCPU(u), endedMemory(u)
		}
		t.Row(withHost(hosts, processes[i].Host, []string{p.ProcessID, shortID(p.SessionID), stateText(p), doingText(p), fmt.Sprint(p.PID),
			ageText(now, p.StartedAtMs), cpu, memory, waitingText(p), strings.Join(p.Argv, " ")})...)
	}
	return t.Flush()
}

// withHost puts the cell of a host before a row, in a list of all hosts.
func withHost(hosts bool, host string, row []string) []string {
	if hosts {
		return append([]string{host}, row...)
	}
	return row
}

// stateText is the state of a process; blocked means that it waits because its output is not read.
func stateText(p *wire.ProcessInfo) string {
	switch {
	case p.State != wire.StateRunning && p.ExitCode != nil && p.TetherUsage != nil && p.TetherUsage.MemoryKill != nil:
		return fmt.Sprintf("exited %d, out of memory", *p.ExitCode)
	case p.State != wire.StateRunning && p.ExitCode != nil:
		return fmt.Sprintf("exited %d", *p.ExitCode)
	case p.State != wire.StateRunning:
		return p.State
	case p.Blocked:
		return "blocked"
	}
	return p.State
}

// doingWords say in a few words what a running process is doing.
var doingWords = map[string]string{
	wire.ActivityRunning: "running", wire.ActivityUsingCPU: "computes", wire.ActivityWaitingForInput: "waits for input",
	wire.ActivityOutputNotRead: "output not read", wire.ActivityBlockedOnPipe: "blocked on a pipe", wire.ActivityStopped: "stopped",
	wire.ActivitySleeping: "sleeps", wire.ActivityWaitingForDisk: "waits for disk", wire.ActivityWaitingOnNetwork: "waits on network",
	wire.ActivityWaitingForEvents: "waits for events", wire.ActivityWaitingForLock: "waits for a lock",
	wire.ActivityWaitingForSignal: "waits for a signal", wire.ActivityWaitingForChild: "waits for a child", wire.ActivityWaiting: "waits",
	wire.ActivityZombie: "zombie", wire.ActivityOutputHeld: "output held open",
}

// doingText says why a process is silent, if the server has looked at it.
func doingText(p *wire.ProcessInfo) string {
	if p.StateDetail == nil {
		return "-"
	}
	return cmp.Or(doingWords[p.StateDetail.Activity], "-")
}

// waitingText is how much output was not yet sent to the client.
func waitingText(p *wire.ProcessInfo) string {
	if p.UnsentBytes == 0 {
		return "-"
	}
	return terminal.Bytes(p.UnsentBytes)
}

func cpuText(ms *uint64) string {
	if ms == nil {
		return "-"
	}
	return terminal.Span(time.Duration(*ms) * time.Millisecond)
}

func bytesText(n *uint64) string {
	if n == nil {
		return "-"
	}
	return terminal.Bytes(*n)
}

func ageText(now time.Time, startedMs int64) string {
	return terminal.Span(now.Sub(time.UnixMilli(startedMs)))
}

func printSessions(w io.Writer, sessions []listedSession, hosts bool, now time.Time) error {
	head := []string{"SESSION", "LABEL", "CLIENT", "STATE", "AGE", "ENDS IN", "PROCESSES"}
	named := slices.ContainsFunc(sessions, func(s listedSession) bool { return s.Principal != "" }) // this client is an administrator
	if named {
		head = append(head, "PRINCIPAL")
	}
	t := terminal.NewTable(w, 0, withHost(hosts, "HOST", head)...)
	for _, s := range sessions {
		state, ends := "attached", "-"
		if !s.Attached {
			state = "detached"
		}
		if s.ExpiresInMs != nil {
			ends = terminal.Span(time.Duration(*s.ExpiresInMs) * time.Millisecond)
		}
		label := s.Label
		if label == "" {
			label = "-"
		}
		row := []string{shortID(s.SessionID), label, s.ClientName, state, ageText(now, s.CreatedAtMs), ends, fmt.Sprint(s.Processes)}
		if named {
			row = append(row, cmp.Or(s.Principal, "-"))
		}
		t.Row(withHost(hosts, s.Host, row)...)
	}
	return t.Flush()
}
