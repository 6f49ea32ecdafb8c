//go:build linux

// Command fleet measures a fleet of many executors: a hub and two gateways of bin/tether, and in this process executors that share a few
// servers, and clients. Everything is on loopback.
//
//	go run ./bench/fleet [-hosts 1000] [-sessions 10000] [-rate 100] [-time 20s]
//
// Run it in the directory of go.mod, after `make build`. It prints what the hub and the gateways use with more and more hosts and sessions,
// so that one can see whether that grows in proportion, and how long starts, lookups and resumes take.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench/fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	hosts := flag.Int("hosts", 1000, "executors")
	sessions := flag.Int("sessions", 10000, "idle sessions")
	rate := flag.Int("rate", 100, "commands per second in all")
	length := flag.Duration("time", 20*time.Second, "how long commands are started")
	flag.Parse()
	f, err := begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.end()) }()
	fmt.Println("| hosts | sessions | hub MiB | hub CPU % | gateway MiB | gateway CPU % |\n|--:|--:|--:|--:|--:|--:|")
	for part := range parts + 1 {
		if err := f.grow(ctx, *hosts*part/parts, 0); err != nil {
			return err
		}
		if err := f.report(ctx); err != nil {
			return err
		}
	}
	for part := range parts {
		if err := f.grow(ctx, *hosts, *sessions*(part+1)/parts); err != nil {
			return err
		}
		if err := f.report(ctx); err != nil {
			return err
		}
	}
	fmt.Println()
	for _, measure := range []func(context.Context) error{
		func(ctx context.Context) error { return f.starts(ctx, *rate, *length) },
		f.lookups,
		f.resumes,
	} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// parts is in how many steps hosts and sessions become more.
const parts = 4
