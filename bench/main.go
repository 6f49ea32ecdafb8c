//go:build linux

// Command bench measures tether beside the reference server, end to end, and
// prints a Markdown table of medians and their ratios:
//
//	go run ./bench [-reps 3] [-quick] [-only cold,idle,starts,output,echo,resume,sandbox,client,watched]
//	go run ./bench -base 'bin/tether serve --no-keeper'
//	go run ./bench -base 'bin/old serve' -only killed,upgraded
//
// Run it in the directory of go.mod, after `make build`. Ratios say more than absolute
// figures: repetitions are the outer loop and the servers the inner one, in
// alternating order, so that other load on the machine affects all servers alike. Each
// measurement gets a fresh server process on loopback. Without the reference,
// tether is measured alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	reps := flag.Int("reps", 3, "repetitions of each measurement")
	quick := flag.Bool("quick", false, "a tenth of the work, to see that everything runs")
	base := flag.String("base", "", "a `command` line with another server to compare with, instead of the reference")
	serve := flag.String("serve", "", "further `flags` of tether serve")
	only := flag.String("only", "cold,idle,starts,output,echo,resume,sandbox,client,watched", "what to measure")
	flag.Parse()
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	work, err := prepare(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work.dir)
	work.quick = *quick
	servers, table := candidates(work.dir, strings.Fields(*base), strings.Fields(*serve)), newTable()
	if len(servers) == 1 {
		fmt.Printf("Tether alone: the reference is not installed in %s.\n\n", referenceDir)
	}
	failures := measure(ctx, work, servers, chosen, *reps, table)
	table.markdown(os.Stdout)
	return errors.Join(append(failures, table.broken()...)...)
}

// measure fills the table. An error drops one sample; the run continues.
func measure(ctx context.Context, work *benchEnv, servers []candidate, chosen []scenario, reps int, table *table) (failures []error) {
	for rep := range reps {
		for i, s := range chosen {
			for k := range len(servers) * max(1, work.amount(s.times)) {
				c := servers[(k+rep+i)%len(servers)]
				if err := s.measure(ctx, work, c, table); err != nil {
					failures = append(failures, fmt.Errorf("%s of %s: %w", s.name, c.name, err))
				}
			}
			if ctx.Err() != nil {
				return failures
			}
			if s.limit != nil {
				if err := s.limit(work, recorder{table, limitColumn}); err != nil {
					failures = append(failures, fmt.Errorf("limit of %s: %w", s.name, err))
				}
			}
		}
		fmt.Fprintf(os.Stderr, "repetition %d of %d done\n", rep+1, reps)
	}
	return failures
}

// choose returns the named scenarios.
func choose(only string) (chosen []scenario, err error) {
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-only %s: there is no %q", only, name)
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

// A benchEnv has the directory and the settings that all measurements share.
type benchEnv struct {
	dir     string // scratch
	produce string // the program that prints at a given rate
	quick   bool
}

// amount is n, or a tenth of it in a quick run.
func (w *benchEnv) amount(n int) int {
	if w.quick {
		return max(1, n/10)
	}
	return n
}

// prepare makes the scratch directory and builds the producer. The directory is not below /tmp,
// because the reference refuses a home directory there.
func prepare(ctx context.Context) (*benchEnv, error) {
	state, err := filepath.Abs(".state")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(state, "bench-")
	if err != nil {
		return nil, err
	}
	w := &benchEnv{dir: dir, produce: filepath.Join(dir, "produce")}
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", w.produce, "./interop/produce").CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("build the producer: %w\n%s", err, out)
	}
	return w, nil
}
