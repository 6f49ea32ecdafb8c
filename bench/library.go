//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tether "github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
)

// libraryLimit bounds one measurement of the client library.
const libraryLimit = 2 * time.Minute

// library measures the package client with each server.
func library(t *trial) error {
	ctx, cancel := context.WithTimeout(context.Background(), libraryLimit)
	defer cancel()
	return errors.Join(libraryOutage(ctx, t), libraryBacklog(ctx, t), libraryCPU(ctx, t))
}

// throughCable connects to the server through a cable.
func throughCable(ctx context.Context, t *trial) (*cable.Cable, *tether.Client, error) {
	c, err := cable.Lay(ctx, cable.Config{Target: t.url})
	if err != nil {
		return nil, nil, err
	}
	client, err := tether.Dial(ctx, c.URL(), tether.Options{})
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, client, nil
}

// libraryOutage measures from the end of an outage to the first output after it. The
// process prints every millisecond, so there is always new output.
func libraryOutage(ctx context.Context, t *trial) error {
	wire, client, err := throughCable(ctx, t)
	if err != nil {
		return err
	}
	defer wire.Close()
	defer client.Close()
	p, err := client.Start(ctx, tether.Command{Argv: []string{"/bin/sh", "-c", "while :; do echo x; sleep 0.001; done"}, Dir: t.dir})
	if err != nil {
		return err
	}
	defer p.Terminate(ctx)
	sub := p.Subscribe()
	for range t.amount(10) {
		wire.Cut()
		for client.Status().State != tether.Recovering {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(700 * time.Millisecond)
		sub.Close()
		sub = p.SubscribeAfter(p.LastSeq())
		ended := time.Now()
		wire.Mend()
		if _, err := sub.Next(ctx); err != nil {
			return err
		}
		t.took("outage", time.Since(ended), time.Millisecond)
	}
	return nil
}

// libraryBacklog measures how long 100 processes take to catch up with a mebibyte each.
func libraryBacklog(ctx context.Context, t *trial) error {
	wire, client, err := throughCable(ctx, t)
	if err != nil {
		return err
	}
	defer wire.Close()
	defer client.Close()
	const backlog = 1000 << 10 // a little less than the 1 MiB that the reference keeps
	n := t.amount(100)
	readers := make([]*tether.OutputReader, n)
	for i := range readers {
		p, err := client.Start(ctx, tether.Command{Argv: []string{"/bin/sh", "-c", fmt.Sprintf("sleep 2; head -c %d /dev/zero; sleep 2", backlog)}, Dir: t.dir})
		if err != nil {
			return err
		}
		readers[i] = p.Output()
	}
	wire.Cut()
	time.Sleep(3500 * time.Millisecond)
	results := make(chan error, n)
	ended := time.Now()
	wire.Mend()
	for _, r := range readers {
		go func() {
			got, err := io.CopyN(io.Discard, r, backlog)
			if err != nil {
				err = fmt.Errorf("after %d bytes: %w", got, err)
			}
			results <- err
		}()
	}
	for range readers {
		err = errors.Join(err, <-results)
	}
	if err == nil {
		t.took("backlog", time.Since(ended), time.Millisecond)
	}
	return err
}

// libraryCPU measures the CPU time of client and server per amount of output.
func libraryCPU(ctx context.Context, t *trial) error {
	client, err := tether.Dial(ctx, t.url, tether.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	size := int64(t.amount(1 << 30))
	own := clientCPU()
	server, _, err := t.cpu()
	if err != nil {
		return err
	}
	p, err := client.Start(ctx, tether.Command{Argv: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"}, Dir: t.dir})
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, p.Output())
	if err != nil || n != size {
		return fmt.Errorf("%d of %d bytes: %w", n, size, err)
	}
	perGiB := float64(1<<30) / float64(size)
	t.add("librarycpu", (clientCPU()-own).Seconds()*perGiB)
	server2, _, err := t.cpu()
	t.add("servercpu", (server2-server).Seconds()*perGiB)
	return err
}
