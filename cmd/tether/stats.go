package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
	"github.com/tetherexec/tether/wire"
)

const showStats = "stats"

func defineStats(fs *pflag.FlagSet, show *bool) {
	fs.BoolVar(show, showStats, false, "print what the command has used after its end: time, CPU, memory, disk")
}

// usage returns the account of a command that has ended; nil: there is none.
func (r *runCommand) usage(p *client.Process, end terminal.Ending) *wire.Usage {
	if !r.stats || !end.Exited && !end.Timeout {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), verdictPatience)
	defer cancel()
	exit, err := p.Result(ctx)
	if err != nil {
		return nil
	}
	return exit.Usage
}

// printStats prints the account of a command for people.
func printStats(w io.Writer, u *wire.Usage) {
	if u == nil {
		fmt.Fprintln(w, "the server has no account of this command")
		return
	}
	for _, row := range statRows(u) {
		fmt.Fprintf(w, "%-10s %s\n", row[0], row[1])
	}
}

// statRows returns the figures that are known, with their names.
func statRows(u *wire.Usage) (rows [][2]string) {
	add := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	blocked := ""
	if u.BlockedUs > 0 {
		blocked = fmt.Sprintf(", %s of it blocked because its output was not read", microsText(u.BlockedUs))
	}
	add("time", "%s%s", microsText(u.WallUs), blocked)
	if u.UserUs != nil && u.SystemUs != nil {
		add("CPU", "%s user, %s system", microsText(*u.UserUs), microsText(*u.SystemUs))
	}
	if u.MemoryPeakBytes != nil {
		size := terminal.Bytes(*u.MemoryPeakBytes)
		switch u.MemoryOf {
		case wire.OfTree:
			add("memory", "%s at most, all processes together", size)
		case wire.OfLargest:
			add("memory", "%s in the largest process", size)
		default:
			add("memory", "%s or less in the largest process", size)
		}
	}
	if u.ReadBytes != nil && u.WrittenBytes != nil {
		add("disk", "%s read, %s written", terminal.Bytes(*u.ReadBytes), terminal.Bytes(*u.WrittenBytes))
	}
	if u.Processes != nil {
		add("processes", "at most %d at the same time", *u.Processes)
	}
	if k := u.MemoryKill; k != nil {
		by := ": "
		if k.Limit == wire.LimitCommand || k.Limit == wire.LimitServer {
			by = ", by the "
		}
		add("killed", "%s%s%s", terminal.Plural(int(k.Processes), "process"), by, k.Text())
	}
	var partial []string
	for _, row := range []struct{ name, of string }{{"CPU", u.CPUOf}, {"memory", u.MemoryOf}, {"disk", u.IOOf}} {
		if row.of != "" && row.of != wire.OfTree {
			partial = append(partial, row.name)
		}
	}
	if len(partial) > 0 {
		add("not counted", "in %s: processes whose parent did not wait for them", strings.Join(partial, ", "))
	}
	return rows
}

// microsText is a time with three decimals below ten seconds.
func microsText(us uint64) string {
	d := time.Duration(us) * time.Microsecond
	if d < 10*time.Second {
		return fmt.Sprintf("%.3fs", d.Seconds())
	}
	return terminal.Span(d)
}

// survivorLines names processes that were killed and are still there.
func survivorLines(list wire.ListResult) (lines []string) {
	add := func(whose string, left []wire.Survivor) {
		for i := range left {
			lines = append(lines, terminal.Printable("still there after a kill, "+whose+": "+left[i].Text()))
		}
	}
	for _, p := range list.Processes {
		add("of "+p.ProcessID, p.Survivors)
	}
	add("of a session that has ended", list.Survivors)
	return lines
}

// endedCPU and endedMemory are the columns of a command that has exited.
func endedCPU(u *wire.Usage) string {
	if u.UserUs == nil {
		return "-"
	}
	return terminal.Span(u.CPU())
}

func endedMemory(u *wire.Usage) string {
	if u.MemoryPeakBytes == nil {
		return "-"
	}
	size := terminal.Bytes(*u.MemoryPeakBytes)
	if u.MemoryOf == wire.OfBound {
		return "<" + size
	}
	return size
}
