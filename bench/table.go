//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// A column of the table: the reference, tether, or the limit.
type column string

const (
	referenceColumn column = "reference"
	tetherColumn    column = "tether"
	limitColumn     column = "limit" // the same work without a server
)

// A row is one measured value.
type row struct {
	id, name, unit string
	higher         bool // is better
	zero           bool // tether must reach 0
}

// rows is everything that is measured, in the order of the table.
var rows = []row{
	{id: "url", name: "exec → URL printed", unit: "ms"},
	{id: "first", name: "exec → initialize answered", unit: "ms"},
	{id: "idle", name: "idle memory (VmRSS)", unit: "MiB"},
	{id: "size", name: "size of the program", unit: "MiB"},
	{id: "start", name: "start → exited of /bin/true", unit: "ms"},
	{id: "startq", name: "same, client acknowledges at once", unit: "ms"},
	{id: "startcpu", name: "CPU per start, server and child", unit: "ms"},
	{id: "startrate", name: "starts, 32 in flight", unit: "1/s", higher: true},
	{id: "output", name: "output of one process", unit: "MB/s", higher: true},
	{id: "outputcpu", name: "server CPU per GiB of output", unit: "s"},
	{id: "clientcpu", name: "client CPU per GiB of output", unit: "s"},
	{id: "chunk", name: "mean chunk of output", unit: "KiB", higher: true},
	{id: "pipe", name: "write → output through cat, pipe", unit: "µs"},
	{id: "tty", name: "write → output through cat, tty", unit: "µs"},
	{id: "pipeq", name: "pipe, client acknowledges at once", unit: "µs"},
	{id: "ttyq", name: "tty, client acknowledges at once", unit: "µs"},
	{id: "answered", name: "20 MB/s, 1 s away: reconnect → read answered", unit: "ms"},
	{id: "catchup", name: "20 MB/s, 1 s away: reconnect → caught up", unit: "ms"},
	{id: "sandboxro", name: "start → exited of /bin/true, read-only sandbox", unit: "ms"},
	{id: "sandboxrocpu", name: "CPU per start, read-only sandbox", unit: "ms"},
	{id: "sandboxww", name: "start → exited of /bin/true, workspace-write sandbox", unit: "ms"},
	{id: "sandboxwwcpu", name: "CPU per start, workspace-write sandbox", unit: "ms"},
	{id: "sandboxrate", name: "starts in workspace-write sandboxes, 16 in flight", unit: "1/s", higher: true},
	{id: "sandboxread", name: "first file request in a sandbox", unit: "ms"},
	{id: "outage", name: "client library: end of an outage → first output", unit: "ms"},
	{id: "backlog", name: "client library: 100 processes catch up with 1 MiB each", unit: "ms"},
	{id: "librarycpu", name: "client library: CPU per GiB of output", unit: "s"},
	{id: "servercpu", name: "server: CPU per GiB of output for it", unit: "s"},
	{id: "watched", name: "output at 50 MB/s, with an observer ÷ without", higher: true},
	{id: "skimmed", name: "output of one process, with a page that skims ÷ without", higher: true},
	{id: "observed", name: "output of one process, with an observer of all of it ÷ without", higher: true},
	{id: "killed10", name: "worker killed → answer of the next one, 10 commands", unit: "ms"},
	{id: "killed1000", name: "worker killed → answer of the next one, 1010 commands", unit: "ms"},
	{id: "replayed", name: "worker killed → answer of the next one, 1000 sessions with 10 ended commands each", unit: "ms"},
	{id: "upgraded", name: "longest wait of a client during an upgrade", unit: "ms"},
	{id: "lost", name: "20 MB/s, 1 s away: output lost", unit: "KiB", zero: true},
}

// A table collects samples.
type table struct {
	samples map[string]map[column][]float64 // by row
}

func newTable() *table {
	t := &table{samples: map[string]map[column][]float64{}}
	for _, r := range rows {
		t.samples[r.id] = map[column][]float64{}
	}
	return t
}

// A recorder adds samples to one column.
type recorder struct {
	table  *table
	column column
}

func (r recorder) add(id string, value float64) {
	samples, ok := r.table.samples[id]
	if !ok {
		panic("no row " + id)
	}
	samples[r.column] = append(samples[r.column], value)
}

// took adds a time in units.
func (r recorder) took(id string, d, unit time.Duration) { r.add(id, float64(d)/float64(unit)) }

// markdown prints the rows that have samples. All values are medians.
func (t *table) markdown(w io.Writer) {
	fmt.Fprintln(w, "| median of all repetitions | | reference | tether | ÷ reference | limit | ÷ limit |")
	fmt.Fprintln(w, "|---|---|--:|--:|--:|--:|--:|")
	for _, r := range rows {
		samples := t.samples[r.id]
		if len(samples) == 0 {
			continue
		}
		ours, reference, limit := samples[tetherColumn], samples[referenceColumn], samples[limitColumn]
		direction := "↓"
		if r.higher {
			direction = "↑"
		}
		fmt.Fprintf(w, "| %s | %s %s | %s | %s | %s | %s | %s |\n", r.name, r.unit, direction,
			figure(reference), figure(ours), ratio(ours, reference), figure(limit), ratio(ours, limit))
	}
}

// broken returns the rows in which tether must reach 0 and has not, in any repetition.
func (t *table) broken() (errs []error) {
	for _, r := range rows {
		if samples := t.samples[r.id][tetherColumn]; r.zero && len(samples) > 0 && slices.Max(samples) > 0 {
			errs = append(errs, fmt.Errorf("%s: %s %s instead of 0", r.name, short(slices.Max(samples)), r.unit))
		}
	}
	return errs
}

const absent = "–"

// figure returns the median, or a dash if there is none.
func figure(samples []float64) string {
	if len(samples) == 0 {
		return absent
	}
	return short(median(samples))
}

// ratio returns the ratio of two medians, or a dash if one is missing.
func ratio(a, b []float64) string {
	if len(a) == 0 || len(b) == 0 || median(b) == 0 {
		return absent
	}
	return short(median(a)/median(b)) + "×"
}

// median is the middle value, or the mean of the two in the middle.
func median(samples []float64) float64 {
	sorted := slices.Sorted(slices.Values(samples))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// short prints three significant digits, or all digits before the point.
func short(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
