//go:build linux

// Command bench measures tether beside the reference server, end to end and on
// this machine only, and prints a Markdown table of medians and their ratios:
//
//	go run ./bench [-reps 3] [-quick] [-only starts,output,echo,resume]
//
// A ratio is worth more than a figure: repetitions are the outer loop and the
// servers the inner one, in alternating order, so that whatever else the machine
// does falls on all alike. Each measurement gets a fresh server process. Without
// the reference tether is measured alone.
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
	only := flag.String("only", "", "comma-separated scenarios, of "+strings.Join(scenarioNames(), ","))
	flag.Parse()
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if *reps < 1 {
		return fmt.Errorf("-reps must be at least 1, not %d", *reps)
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	work, err := prepare(ctx, root)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work.dir)
	work.full = !*quick
	servers := candidates(root, work.dir)
	table := newTable()
	failures := measure(ctx, work, servers, chosen, *reps, table)
	if len(servers) == 1 {
		fmt.Printf("The reference is not installed below %s: tether was measured alone.\n\n", referenceDir)
	}
	table.markdown(os.Stdout)
	return errors.Join(append(failures, table.broken()...)...)
}

// measure fills the table. A failure costs one sample, not the run.
func measure(ctx context.Context, work *workshop, servers []candidate, chosen []scenario, reps int, table *table) (failures []error) {
	for rep := range reps {
		for i, s := range chosen {
			for k := range servers {
				c := servers[(k+rep+i)%len(servers)]
				if err := s.measure(ctx, work, c, table); err != nil {
					failures = append(failures, fmt.Errorf("%s of %s: %w", s.name, c.name, err))
				}
				if ctx.Err() != nil {
					return failures
				}
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

// choose returns the named scenarios, or all of them.
func choose(only string) ([]scenario, error) {
	if only == "" {
		return scenarios, nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no scenario %q; there are %s", name, strings.Join(scenarioNames(), ", "))
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

// A workshop is what all measurements share.
type workshop struct {
	dir     string // scratch
	produce string // the program that prints at a given rate
	full    bool   // as opposed to a quick run
}

// amount is n, or a tenth of it in a quick run.
func (w *workshop) amount(n int) int {
	if w.full {
		return n
	}
	return max(1, n/10)
}

// prepare makes the scratch directory and builds the producer. The directory is
// below the module because the reference refuses a home among temporary files.
func prepare(ctx context.Context, root string) (*workshop, error) {
	state := filepath.Join(root, ".state")
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(state, "bench-")
	if err != nil {
		return nil, err
	}
	w := &workshop{dir: dir, produce: filepath.Join(dir, "produce")}
	build := exec.CommandContext(ctx, "go", "build", "-o", w.produce, "./interop/produce")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("build the producer: %w\n%s", err, out)
	}
	return w, nil
}

func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", errors.Join(err, errors.New("no go.mod above the working directory"))
}
