package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tetherexec/tether/wire"
)

// A table is printed in columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, headings ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	t.row(headings...)
	return t
}

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

func (t *table) flush() error { return t.w.Flush() }

// printable takes out what could move the cursor of a terminal: names and arguments
// come from others.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

func printProcesses(w io.Writer, processes []wire.ProcessInfo, now time.Time, width int) error {
	t := newTable(w, "NAME", "SESSION", "STATE", "DOING", "PID", "AGE", "CPU", "MEMORY", "WAITING", "COMMAND")
	for _, p := range processes {
		t.row(p.ProcessID, shortID(p.SessionID), stateText(&p), doingText(&p), fmt.Sprint(p.PID), ageText(now, p.StartedAtMs),
			cpuText(p.CPUMs), bytesText(p.MemoryBytes), waitingText(&p), commandText(p.Argv, width))
	}
	return t.flush()
}

// stateText is what a process does. One whose output nobody reads is held back.
func stateText(p *wire.ProcessInfo) string {
	switch {
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

// waitingText is the output that its client has not been sent yet.
func waitingText(p *wire.ProcessInfo) string {
	if p.UnsentBytes == 0 {
		return "-"
	}
	return sizeText(p.UnsentBytes)
}

func cpuText(ms *uint64) string {
	if ms == nil {
		return "-"
	}
	return shortTime(time.Duration(*ms) * time.Millisecond)
}

func bytesText(n *uint64) string {
	if n == nil {
		return "-"
	}
	return sizeText(*n)
}

// sizeText is a size with at most one decimal.
func sizeText(n uint64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%dB", n)
	}
	value, unit := float64(n), 0
	for value /= 1 << 10; value >= 1000 && unit < len(units)-1; unit++ {
		value /= 1 << 10
	}
	if value < 9.95 {
		return fmt.Sprintf("%.1f%ciB", value, units[unit])
	}
	return fmt.Sprintf("%.0f%ciB", value, units[unit])
}

// shortTime is a time span as people say it: 1.2s, 45s, 3m20s, 5h10m, 3d4h.
func shortTime(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

func ageText(now time.Time, startedMs int64) string {
	return shortTime(now.Sub(time.UnixMilli(startedMs)))
}

// minCommand is the least room for a command in a table.
const minCommand = 20

// commandText is a command line, cut to what fits; 0: nothing is cut.
func commandText(argv []string, width int) string {
	text := strings.Join(argv, " ")
	const others = 98 // what the other columns take, about
	room := max(minCommand, width-others)
	if runes := []rune(text); width > 0 && len(runes) > room {
		return string(runes[:room-1]) + "…"
	}
	return text
}

func printSessions(w io.Writer, sessions []wire.SessionInfo, now time.Time) error {
	t := newTable(w, "SESSION", "LABEL", "CLIENT", "STATE", "AGE", "ENDS IN", "PROCESSES")
	for _, s := range sessions {
		state, ends := "attached", "-"
		if !s.Attached {
			state = "detached"
		}
		if s.ExpiresInMs != nil {
			ends = shortTime(time.Duration(*s.ExpiresInMs) * time.Millisecond)
		}
		label := s.Label
		if label == "" {
			label = "-"
		}
		t.row(shortID(s.SessionID), label, s.ClientName, state, ageText(now, s.CreatedAtMs), ends, fmt.Sprint(s.Processes))
	}
	return t.flush()
}
