//go:build mcp

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/cable"
)

// run opens the cable and causes faults until a signal or --for ends it.
func (f *chaosFlags) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	rules, err := f.rules()
	if err != nil {
		return err
	}
	cfg := cable.Config{Target: f.target, Listen: f.listen, Seed: f.seed}
	if cfg.TLS, err = (&tlsFlags{ca: f.ca}).config(); err != nil {
		return err
	}
	var trace io.Writer
	if f.trace != "" {
		file, err := cable.OpenTrace(f.trace)
		if err != nil {
			return fmt.Errorf("open trace: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		trace = file
	}
	log := cable.NewLog(stderr, trace)
	ctx, stop := untilSignal(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if f.runFor > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(f.runFor))
		defer cancel()
	}
	cfg.Tap, cfg.Notice = log.Message, log.Event
	c, err := cable.Lay(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetLatency(time.Duration(f.latency), time.Duration(f.jitter))
	c.SetRate(int64(f.rate))
	for _, r := range rules {
		c.On(cable.Either, r.match, r.action)
	}
	if _, err := fmt.Fprintln(stdout, c.URL()); err != nil {
		return fmt.Errorf("print URL: %w", err)
	}
	log.Say(fmt.Sprintf("between %s and %s, seed %d", c.URL(), cfg.Target, cfg.Seed))
	c.RunSchedule(ctx, cable.Schedule{
		CutEvery: time.Duration(f.cutEvery), CutFor: time.Duration(f.cutFor),
		FreezeEvery: time.Duration(f.freezeEvery), FreezeFor: time.Duration(f.freezeFor),
	})
	c.Close()
	log.Summary(c.Stats())
	return log.Err()
}

// A chaosRule is a rule from the command line; it is applied when the cable is open.
type chaosRule struct {
	match  cable.Match
	action cable.Action
}

func (f *chaosFlags) rules() ([]chaosRule, error) {
	var rules []chaosRule
	for _, list := range []struct {
		flag   string
		values []string
		action cable.Action
	}{
		{"drop", f.drop, cable.Drop},
		{"duplicate", f.duplicate, cable.Duplicate},
		{"hold", f.hold, cable.HoldFor(time.Duration(f.holdFor))},
		{"cut-after", f.cutAfter, cable.SeverAfter},
	} {
		for _, value := range list.values {
			match, err := cable.ParseMatch(value)
			if err != nil {
				return nil, usageError{fmt.Errorf("invalid argument %q for \"--%s\" flag: %w", value, list.flag, err)}
			}
			rules = append(rules, chaosRule{match, list.action})
		}
	}
	return rules, nil
}
