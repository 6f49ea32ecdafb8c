package main

import (
	"bufio"
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

// hostile are commands that take all they can get, and their limits.
var hostile = []struct {
	name   string
	script string
	limits func(*wire.Limits)
}{
	{"fork bomb", "exec 2>/dev/null; bomb() { while :; do bomb & done; }; bomb & exec sleep 1000", func(l *wire.Limits) { l.Processes, l.CPUs = above(200), new(wire.Amount(0.5)) }},
	{"memory hog", "while :; do head -c 300M /dev/zero | tail >/dev/null; done 2>/dev/null", func(l *wire.Limits) { l.MemoryBytes, l.CPUs = above(200<<20), new(wire.Amount(0.5)) }},
	{"CPU hog", "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait", func(l *wire.Limits) { l.CPUs = new(wire.Amount(0.5)) }},
	{"disk filler", "while :; do cat /dev/zero >file; done 2>/dev/null", func(l *wire.Limits) { l.DiskBytes, l.CPUs = above(20<<20), new(wire.Amount(0.3)) }},
	{"sleepers", "i=0; while [ $i -lt 10000 ]; do sleep 1000 & i=$((i+1)); done 2>/dev/null; echo all; wait", func(l *wire.Limits) { l.Processes, l.TimeMs = above(10100), above(60_000) }},
	{"CPU hog without a limit", "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait", func(*wire.Limits) {}},
}

// While a command does its worst within its limits, commands of other sessions start about as fast as on an idle server. It is
// ended when its time is up, and leaves nothing.
func TestHostileCommandsWithinLimits(t *testing.T) {
	tethertest.SoakOnly(t)
	needLimits(t)
	s := startKept(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c, other := dialKept(t, s.url), dialKept(t, s.url)
	before := latency(ctx, t, other)
	for _, h := range hostile {
		limits := &wire.Limits{TimeMs: above(8_000), BestEffort: new(true)}
		h.limits(limits)
		dir := t.TempDir()
		p, err := c.Start(ctx, client.Command{Argv: []string{"sh", "-c", h.script}, Dir: dir, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		out := p.Stdout()
		select {
		case <-p.Done():
			t.Errorf("%s: it has ended by itself", h.name)
		case <-time.After(2 * time.Second): // until it does its worst
		}
		if strings.Contains(h.script, "echo all") {
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "all\n" || err != nil {
				t.Errorf("%s: %q, %v", h.name, line, err)
			}
		}
		during := latency(ctx, t, other)
		out.Close()
		exit, err := p.Wait(ctx)
		if err != nil || exit.Limit != wire.LimitTimeMs {
			t.Errorf("%s: %+v, %v", h.name, exit, err)
		}
		after := latency(ctx, t, other)
		base := (before + after) / 2 // other programs of the machine come and go
		t.Logf("%s: %v before, %v during, %v after: %.2f times", h.name, before, during, after, float64(during)/float64(base))
		before = after
		if during > 3*base {
			t.Errorf("%s: starts of others take %v instead of %v", h.name, during, base)
		}
	}
	if left := groupsBelow(s.Process.Pid); len(left) > 3 { // one in each hierarchy is for the next command
		t.Errorf("control groups are left: %v", left)
	}
	stopped(t, s)
}

// groupsBelow returns the control groups of commands that a server has, except for those that it keeps for reuse.
func groupsBelow(server int) (left []string) {
	for _, parent := range groupsOf(server) {
		if strings.Contains(parent, "/unified/") {
			continue
		}
		entries, _ := os.ReadDir(parent)
		for _, entry := range entries {
			if entry.IsDir() {
				left = append(left, parent+"/"+entry.Name())
			}
		}
	}
	return left
}

// latency is the median time from the start of a command to its exit.
func latency(ctx context.Context, t *testing.T, c *client.Client) time.Duration {
	t.Helper()
	var times []time.Duration
	for range 200 {
		begun := time.Now()
		p, err := c.Start(ctx, client.Command{Argv: []string{"/bin/true"}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Result(ctx); err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	return times[len(times)/2]
}
