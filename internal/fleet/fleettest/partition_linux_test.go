package fleettest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/workload"
)

// The way between a host and the hub delivers nothing for a time that TCP bridges, for one in which links end, and for one in which the lease of the
// host ends, too. Commands that run go on, those that are started or get input meanwhile run once, and every byte arrives once.
func TestPartition(t *testing.T) {
	t.Parallel()
	times := []time.Duration{time.Second}
	if tethertest.Soak() {
		times = []time.Duration{time.Second, 10 * time.Second, time.Minute}
	}
	for _, d := range times {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			partition(t, d)
		})
	}
}

func partition(t *testing.T, lasts time.Duration) {
	f := fleettest.Start(t)
	gates := []*fleettest.Gateway{f.Gateway(listen.Config{}, ""), f.Gateway(listen.Config{}, "")}
	front := fleettest.LayRelay(t, fleettest.Target(t, gates[0].URL), fleettest.Target(t, gates[1].URL))
	toHub := fleettest.LayRelay(t, f.HubAddress())
	h := f.Host(fleettest.HostConfig{Host: fleet.Host{Name: "box"}, Address: toHub.Address(), Server: server.Config{SessionTTL: sessionTTL}})
	for _, g := range gates {
		fleettest.Await(t, g.Hosts, "the host has joined", func() bool {
			h, known := g.Hosts.Get("box")
			return known && h.State == directory.Reachable
		})
	}
	ctx := t.Context() // on a busy machine, the commands take as long as they take
	c := dialFleet(ctx, t, front.URL())
	steady := startSteady(ctx, t, c)
	steady.awaitLine(t)

	tasks := workload.Runner{Dir: t.TempDir(), Marker: "TETHER_PARTITION=1"}
	var working sync.WaitGroup
	other := dialFleet(ctx, t, front.URL())
	toHub.SetSilent(true)
	for i, kind := range workload.Kinds { // their starts are on the way, and wait
		working.Go(func() {
			if err := tasks.Run(ctx, other, fmt.Sprintf("task-%d", i), kind); err != nil {
				t.Errorf("%s: %v", kind.Name, err)
			}
		})
	}
	toHub.AwaitHeld()
	time.Sleep(lasts) // this is the fault, not a wait for something
	toHub.SetSilent(false)
	working.Wait()
	steady.end(ctx, t)
	if sessions, running := h.Server.Load(); sessions != 2 || running != 0 {
		t.Errorf("the host has %d sessions with %d commands", sessions, running)
	}
}

func dialFleet(ctx context.Context, t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.Dial(ctx, url, client.Options{Wait: fleettest.Patience, TTL: sessionTTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// steady is a command that prints numbered lines all the time, and one that gets numbered lines all the time and prints them.
type steady struct {
	dir     string
	printer *client.Process
	echo    *client.Process
	printed chan struct{} // closed when the first line has arrived

	reading       sync.WaitGroup
	printerOutput bytes.Buffer
	echoOutput    bytes.Buffer

	enough  chan struct{} // closed when no more input is needed
	writing sync.WaitGroup
	input   bytes.Buffer
}

// firstWrite closes a channel when something is written.
type firstWrite struct {
	bytes *bytes.Buffer
	once  sync.Once
	wrote chan struct{}
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.once.Do(func() { close(w.wrote) })
	return w.bytes.Write(p)
}

func startSteady(ctx context.Context, t *testing.T, c *client.Client) *steady {
	t.Helper()
	s := &steady{dir: t.TempDir(), printed: make(chan struct{}), enough: make(chan struct{})}
	var err error
	if s.printer, err = c.Start(ctx, client.Command{Dir: s.dir, Argv: []string{
		"sh", "-c", "echo once >>started; i=0; until [ -e stop ]; do i=$((i+1)); echo $i; sleep 0.005; done; echo $i >last; exit 3",
	}}); err != nil {
		t.Fatal(err)
	}
	if s.echo, err = c.Start(ctx, client.Command{Argv: []string{"cat"}, Stdin: true}); err != nil {
		t.Fatal(err)
	}
	s.reading.Go(func() { // ends with the command
		if _, err := io.Copy(&firstWrite{bytes: &s.printerOutput, wrote: s.printed}, s.printer.Stdout()); err != nil {
			t.Error(err)
		}
	})
	s.reading.Go(func() { // the same
		if _, err := io.Copy(&s.echoOutput, s.echo.Stdout()); err != nil {
			t.Error(err)
		}
	})
	s.writing.Go(func() { // ends with enough
		for i := 1; ; i++ {
			select {
			case <-s.enough:
				return
			case <-time.After(5 * time.Millisecond):
			}
			line := fmt.Appendf(nil, "input %d\n", i)
			if err := s.echo.Write(ctx, line); err != nil {
				t.Errorf("write: %v", err)
				return
			}
			s.input.Write(line)
		}
	})
	return s
}

func (s *steady) awaitLine(t *testing.T) {
	t.Helper()
	select {
	case <-s.printed:
	case <-time.After(fleettest.Patience):
		t.Fatal("nothing is printed")
	}
}

// end ends both commands, and checks what they have printed.
func (s *steady) end(ctx context.Context, t *testing.T) {
	t.Helper()
	close(s.enough)
	s.writing.Wait()
	if err := s.echo.CloseStdin(ctx); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "stop"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.reading.Wait()
	for p, code := range map[*client.Process]int{s.printer: 3, s.echo: 0} {
		if r, err := p.Result(ctx); err != nil || r.Code != code {
			t.Errorf("%+v, %v, want code %d", r, err, code)
		}
	}
	if !bytes.Equal(s.echoOutput.Bytes(), s.input.Bytes()) {
		t.Errorf("cat has printed %d bytes, not the %d that it got", s.echoOutput.Len(), s.input.Len())
	}
	var last int
	text, err := os.ReadFile(filepath.Join(s.dir, "last"))
	if err == nil {
		_, err = fmt.Sscan(string(text), &last)
	}
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range last {
		fmt.Fprintln(&want, i+1)
	}
	if s.printerOutput.String() != want.String() {
		t.Errorf("%d bytes of output, not the %d that were printed", s.printerOutput.Len(), want.Len())
	}
	if text, err := os.ReadFile(filepath.Join(s.dir, "started")); err != nil || string(text) != "once\n" {
		t.Errorf("started %q, %v", text, err)
	}
}
