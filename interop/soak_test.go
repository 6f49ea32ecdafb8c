//go:build interop

package interop_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/internal/cable"
	door "github.com/tetherexec/tether/internal/listen"
	execserver "github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
)

// These tests keep cutting the connections of clients that behave as the
// reference client does, and compare each command's output, byte for byte, with
// what the command is known to print. The server runs in the test's process, so
// that its goroutines and descriptors can be counted. In make test they run for
// some seconds, in make soak for minutes.

// producer builds the command that prints known output.
var producer = sync.OnceValues(func() (string, error) {
	path := filepath.Join(suite.dir, "produce")
	out, err := exec.Command("go", "build", "-o", path, "./produce").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// A job is one run of the producer.
type job struct {
	seed  uint64
	bytes int64
	over  time.Duration
	step  time.Duration // 0: a few milliseconds
	exit  int
	gate  string // the last tenth comes when this file exists, unless empty
	began func() // called with the first output, unless nil
}

func (j job) argv(t testing.TB) []string {
	t.Helper()
	path, err := producer()
	if err != nil {
		t.Fatal("build the producer:", err)
	}
	return []string{path, "-seed", strconv.FormatUint(j.seed, 10), "-bytes", strconv.FormatInt(j.bytes, 10),
		"-over", j.over.String(), "-step", cmp.Or(j.step, 5*time.Millisecond).String(), "-exit", strconv.Itoa(j.exit), "-gate", j.gate}
}

// check compares the received output with the printed output.
func (j job) check(r tethertest.RefResult) error {
	sum := sha256.New()
	io.Copy(sum, tethertest.Pattern(j.seed, j.bytes))
	got := r.Streams["stdout"]
	if got.Bytes == 0 {
		got.SHA256 = hex.EncodeToString(sha256.New().Sum(nil))
	}
	switch {
	case r.ExitCode != j.exit:
		return fmt.Errorf("exit code %d, want %d", r.ExitCode, j.exit)
	case got.Bytes != j.bytes:
		return fmt.Errorf("%d bytes, want %d", got.Bytes, j.bytes)
	case got.SHA256 != hex.EncodeToString(sum.Sum(nil)):
		return errors.New("the bytes differ from those that were printed")
	}
	return nil
}

// maxStarts is how often the answer to a start may be lost before the job fails.
const maxStarts = 20

// run runs the job to its end. If a cut loses the answer to a start, the reference client gives the start up; run tries again with
// another id.
func (j job) run(ctx context.Context, t testing.TB, c *tethertest.RefClient, id string) error {
	argv := j.argv(t)
	began := func(uint64, string, []byte) {}
	if j.began != nil {
		first := sync.OnceFunc(j.began)
		began = func(uint64, string, []byte) { first() }
	}
	for attempt := 0; ; attempt++ {
		p, err := c.Start(ctx, tethertest.RefStart{ID: fmt.Sprintf("%s-%d", id, attempt), Argv: argv, OnOutput: began})
		if errors.Is(err, tethertest.ErrDisconnected) && attempt < maxStarts {
			continue
		}
		if err != nil {
			return fmt.Errorf("start %s: %w", id, err)
		}
		r, err := p.Wait(ctx)
		if err != nil {
			return fmt.Errorf("%s after %d bytes: %w", id, p.Received(), err)
		}
		if err := j.check(r); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		_, err = p.Terminate(ctx) // as the reference client does after every command
		if err != nil && !errors.Is(err, tethertest.ErrDisconnected) {
			return fmt.Errorf("terminate %s: %w", id, err)
		}
		return nil
	}
}

// soakServer runs a server in this process and checks at the end of the test that it leaves no goroutine, file or process.
func soakServer(t *testing.T) (url string) {
	t.Helper()
	program(t, tether)
	job{}.argv(t) // builds the producer before the time counts
	before := goleak.IgnoreCurrent()
	fds, processes := openFiles(t), children(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	cfg := execserver.Config{StateDir: dir}
	l, err := door.Open(ctx, door.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := execserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-served, s.Close()); err != nil {
			t.Error(err)
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
		if now := openFiles(t); now > fds {
			t.Errorf("%d files are open, %d were before", now, fds)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "server-*")); len(left) > 0 {
			t.Errorf("left in the state directory: %v", left)
		}
		for _, pid := range children(t) {
			if !slices.Contains(processes, pid) {
				t.Errorf("process %s is left", pid)
			}
		}
	})
	return l.URL
}

// children are the processes that this one has started and not yet reaped.
func children(t testing.TB) (pids []string) {
	t.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		pids = append(pids, strings.Fields(string(text))...)
	}
	return pids
}

func openFiles(t testing.TB) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

func soakClient(ctx context.Context, t *testing.T, url string) *tethertest.RefClient {
	t.Helper()
	c, err := tethertest.DialRef(ctx, url, tethertest.RefOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A command that prints 20 MB/s runs through an outage of ten seconds (in make test: one second).
func TestSoakOutageOfTenSeconds(t *testing.T) {
	url := soakServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a busy machine needs one
	defer cancel()
	cable := tethertest.LayCable(t, url)
	defer cable.Close()
	c := soakClient(ctx, t, cable.URL())
	defer c.Close()
	before, outage := tethertest.Scaled(500*time.Millisecond, 2*time.Second), tethertest.Scaled(time.Second, 10*time.Second)
	over := before + outage + before
	cut := func() { time.AfterFunc(before, func() { cable.CutFor(outage) }) }
	if err := (job{seed: 1, bytes: 20e6 * int64(over) / int64(time.Second), over: over, exit: 7, began: cut}).run(ctx, t, c, "outage"); err != nil {
		t.Fatal(err)
	}
	if c.Recoveries() != 1 {
		t.Errorf("the connection was recovered %d times, want once", c.Recoveries())
	}
}

// The same command with a connection that is cut every 200 ms for 30 s (in make test: eight times, each after the client has
// recovered).
func TestSoakCutEvery200ms(t *testing.T) {
	url := soakServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cable := tethertest.LayCable(t, url)
	defer cable.Close()
	c := soakClient(ctx, t, cable.URL())
	defer c.Close()
	cuts, over := tethertest.Scaled(8, 50), tethertest.Scaled(2*time.Second, 32*time.Second)
	due, gate := func(int) bool { return true }, ""
	if !tethertest.Soak() {
		gate = filepath.Join(t.TempDir(), "gate")
		due = func(n int) bool {
			if c.Recoveries() >= cuts {
				os.WriteFile(gate, nil, 0o600) // without it the command does not end
			}
			return n < cuts && c.Recoveries() >= n
		}
	}
	stop := cutEvery(cable, 200*time.Millisecond, tethertest.Scaled(time.Minute, 30*time.Second), due)
	defer stop()
	if err := (job{seed: 2, bytes: 20e6 * int64(over) / int64(time.Second), over: over, exit: 3, gate: gate}).run(ctx, t, c, "cuts"); err != nil {
		t.Fatal(err)
	}
	if c.Recoveries() < cuts {
		t.Errorf("the connection was recovered only %d times", c.Recoveries())
	}
}

// cutEvery cuts a cable again and again until the time is over or stop is called. due
// says whether the next cut may come, after so many.
func cutEvery(cable *cable.Cable, every, total time.Duration, due func(cuts int) bool) (stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), total)
	var cutter sync.WaitGroup
	cutter.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for cuts := 0; ; {
			select {
			case <-tick.C:
				if !due(cuts) {
					continue
				}
				cable.Cut()
				cable.Mend()
				cuts++
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		cutter.Wait()
	}
}

// A hundred clients run twenty commands each, some of them at the same time,
// and each client's connection is cut every two seconds for a minute (in make test:
// eight clients with six commands each, for three seconds).
func TestSoakManyClients(t *testing.T) {
	const atOnce = 4
	var (
		clients  = tethertest.Scaled(8, 100)
		commands = tethertest.Scaled(6, 20)
		cuts     = tethertest.Scaled(500*time.Millisecond, 2*time.Second)
		total    = tethertest.Scaled(3*time.Second, time.Minute)
	)
	url := soakServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			cable := tethertest.LayCable(t, url)
			defer cable.Close()
			c, err := tethertest.DialRef(ctx, cable.URL(), tethertest.RefOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			time.Sleep(time.Duration(random.Int64N(int64(cuts)))) // not all cut at the same moment
			// All clients reconnect at once: a slow one is not cut off again before it has recovered.
			stop := cutEvery(cable, cuts, total, func(cuts int) bool { return c.Recoveries() >= cuts })
			defer stop()
			places := make(chan struct{}, atOnce)
			var jobs sync.WaitGroup
			for k := range commands {
				// The commands of a client together take about as long as the cuts go on.
				j := job{seed: uint64(i*commands + k), bytes: random.Int64N(1<<20 + 1), exit: random.IntN(6), step: 100 * time.Millisecond,
					over: time.Duration(random.Int64N(2 * int64(total) * atOnce / int64(commands)))}
				places <- struct{}{}
				jobs.Go(func() {
					defer func() { <-places }()
					if err := j.run(ctx, t, c, fmt.Sprintf("client %d command %d", i, k)); err != nil {
						t.Error(err)
					}
				})
			}
			jobs.Wait()
		})
	}
	all.Wait()
}
