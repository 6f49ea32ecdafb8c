//go:build unix

package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// Parameters of TestChaos.
var (
	chaosTime    = tethertest.Scaled(2*time.Second, 20*time.Second)
	chaosClients = tethertest.Scaled(10, 20)
)

const (
	chaosProcesses = 5                      // of each client, at once
	chaosCut       = 500 * time.Millisecond // between two cuts of a client
	chaosBytes     = 512 << 10              // the most that a process prints
)

// Many clients lose their connections all the time. No output is lost or comes
// twice, and no process is left behind.
func TestChaos(t *testing.T) {
	check := tethertest.NothingLeft(t)
	file, _ := randomFile(t, chaosBytes)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := tethertest.StartServer(t, server.Config{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var clients sync.WaitGroup
	var mu sync.Mutex
	finished, recovered := 0, 0
	for i := range chaosClients {
		cable := tethertest.LayCable(t, s.URL)
		c, err := tethertest.DialRef(ctx, cable.URL(), tethertest.RefOptions{})
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() { // ends with its processes
			defer cable.Close()
			defer c.Close()
			n, err := runThroughCuts(ctx, c, cable, file, data, rand.New(rand.NewPCG(1, uint64(i))))
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			}
			mu.Lock()
			defer mu.Unlock()
			finished, recovered = finished+n, recovered+c.Recoveries()
		})
	}
	clients.Wait()
	t.Logf("%d processes, %d recoveries", finished, recovered)
	if finished < chaosClients*chaosProcesses || recovered < chaosClients {
		t.Errorf("too little happened: %d processes, %d recoveries", finished, recovered)
	}
	s.Stop()
	check()
}

// runThroughCuts runs processes over a cable that is cut again and again, and
// returns how many have ended with the right output.
func runThroughCuts(ctx context.Context, c *tethertest.RefClient, cable *cable.Cable, file string, data []byte, random *rand.Rand) (int, error) {
	over := time.Now().Add(chaosTime)
	ended := make(chan struct{})
	var cutter sync.WaitGroup
	cutter.Go(func() { // ends with the processes
		every := time.NewTicker(chaosCut)
		defer every.Stop()
		for time.Now().Before(over) {
			select {
			case <-every.C:
				cable.CutFor(20 * time.Millisecond)
			case <-ended:
				return
			}
		}
	})
	defer cutter.Wait()
	defer close(ended)

	var workers sync.WaitGroup
	counts, errs := make([]int, chaosProcesses), make([]error, chaosProcesses)
	for w := range chaosProcesses {
		sizes := rand.New(rand.NewPCG(random.Uint64(), 0))
		workers.Go(func() { // ends when the time is over and one of its processes has ended
			for n := 0; errs[w] == nil && (counts[w] == 0 || time.Now().Before(over)); n++ {
				size, code := sizes.IntN(len(data)), sizes.IntN(100)
				err := runOnce(ctx, c, fmt.Sprintf("%d-%d", w, n), file, data[:size], code)
				switch {
				case err == nil:
					counts[w]++
				case ctx.Err() != nil:
					errs[w] = fmt.Errorf("no process of worker %d has ended: %w", w, err)
				case !errors.Is(err, tethertest.ErrDisconnected): // otherwise the start was lost: start another process
					errs[w] = err
				}
			}
		})
	}
	workers.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, errors.Join(errs...)
}

// runOnce prints data in two pieces and checks that all of it arrives.
func runOnce(ctx context.Context, c *tethertest.RefClient, id, file string, data []byte, code int) error {
	script := fmt.Sprintf("head -c %d %s; sleep 0.2; head -c %d %s | tail -c +%d; exit %d",
		len(data)/2, file, len(data), file, len(data)/2+1, code)
	p, err := c.Start(ctx, tethertest.RefStart{ID: id, Argv: []string{"/bin/sh", "-c", script}})
	if err != nil {
		return err
	}
	result, err := p.Wait(ctx)
	if err != nil {
		return fmt.Errorf("process %s: %v", id, err) // a lost process is an error in any case
	}
	sum := sha256.Sum256(data)
	out := result.Streams["stdout"]
	if len(data) > 0 && (out.SHA256 != hex.EncodeToString(sum[:]) || out.Bytes != int64(len(data))) || result.ExitCode != code {
		return fmt.Errorf("process %s: %d of %d bytes, exit code %d, want %d", id, out.Bytes, len(data), result.ExitCode, code)
	}
	if _, err := p.Terminate(ctx); err != nil && !errors.Is(err, tethertest.ErrDisconnected) {
		return fmt.Errorf("terminate %s: %w", id, err)
	}
	return nil
}
