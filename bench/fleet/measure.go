//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/bus"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/hub"
	"github.com/tetherexec/tether/internal/tethertest"
)

const (
	// settle is how long a report counts: two renewals of every lease.
	settle = 2 * fleet.BeatInterval

	// samples is how many lookups and resumes are measured.
	samples = 200
)

// report prints what the hub and the first gateway use while nothing happens but beats.
func (f *testFleet) report(ctx context.Context) error {
	programs := []*program{f.hub, f.gateways[0]}
	var before []time.Duration
	for _, p := range programs {
		_, cpu, err := usage(p)
		if err != nil {
			return err
		}
		before = append(before, cpu)
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	fmt.Printf("| %d | %d |", len(f.buses), len(f.clients))
	for i, p := range programs {
		memory, cpu, err := usage(p)
		if err != nil {
			return err
		}
		fmt.Printf(" %.1f | %.1f |", float64(memory)/(1<<20), 100*float64(cpu-before[i])/float64(settle))
	}
	fmt.Println()
	return nil
}

// usage returns the resident memory of a program, and its processor time.
func usage(p *program) (memory int64, cpu time.Duration, err error) {
	dir := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
	status, err := os.ReadFile(dir + "/statm")
	if err != nil {
		return 0, 0, err
	}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0, 0, err
	}
	pages, err := strconv.ParseInt(strings.Fields(string(status))[1], 10, 64)
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	for _, field := range strings.Fields(rest)[11:13] {
		ticks, terr := strconv.ParseInt(field, 10, 64)
		err = errors.Join(err, terr)
		cpu += time.Duration(ticks) * time.Second / clockTicks
	}
	return pages * int64(os.Getpagesize()), cpu, err
}

// clockTicks is how many ticks of /proc/PID/stat a second has.
const clockTicks = 100

// starts runs commands in all sessions in turn, and prints how long they take from the start to the exit.
func (f *testFleet) starts(ctx context.Context, rate int, length time.Duration) error {
	var mu sync.Mutex
	var times []time.Duration
	var failures []error
	var running sync.WaitGroup
	_, hubBefore, err := usage(f.hub)
	if err != nil {
		return err
	}
	begin := time.Now()
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := 0; time.Since(begin) < length && ctx.Err() == nil; i++ {
		<-tick.C
		s := f.clients[i%len(f.clients)]
		running.Go(func() {
			took, err := f.runTrue(ctx, s, fmt.Sprint("p", i))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = append(failures, err)
				return
			}
			times = append(times, took)
		})
	}
	running.Wait()
	_, hubAfter, err := usage(f.hub)
	if err != nil {
		return err
	}
	fmt.Printf("%d commands, %.0f per second: start → exited %s; hub CPU %.1f %%\n", len(times), float64(len(times))/time.Since(begin).Seconds(),
		quantiles(times), 100*float64(hubAfter-hubBefore)/float64(time.Since(begin)))
	return errors.Join(failures...)
}

func (f *testFleet) runTrue(ctx context.Context, s *session, id string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begin := time.Now()
	if err := s.conn.Call(ctx, "process/start", tethertest.Command(id, []string{"/bin/true"}, nil), nil); err != nil {
		return 0, err
	}
	_, err := s.conn.Take(ctx, func(m tethertest.Message) bool {
		return m.Method == "process/exited" && strings.Contains(string(m.Params), strconv.Quote(id))
	})
	return time.Since(begin), err
}

// lookups prints how long the directory takes to tell which host has a session, and to note that a client resumes it.
func (f *testFleet) lookups(ctx context.Context) error {
	creds, err := f.credentials(hub.RoleGateway, "lookups")
	if err != nil {
		return err
	}
	conn, err := bus.Connect(ctx, bus.Config{URL: f.hub.url, Credentials: creds, Name: "lookups", Inbox: fleet.GatewayInbox})
	if err != nil {
		return err
	}
	defer conn.Close()
	sessions, err := directory.NewSessions(conn)
	if err != nil {
		return err
	}
	var times []time.Duration
	for i := range samples {
		begin := time.Now()
		if _, _, err := sessions.TakeOver(ctx, fleet.SessionKey(f.clients[i*7919%len(f.clients)].id), "", anHour); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
	}
	fmt.Println("lookup and takeover in the directory:", quantiles(times))
	return nil
}

// resumes prints how long a client needs to resume its session through another gateway after a cut.
func (f *testFleet) resumes(ctx context.Context) error {
	var times []time.Duration
	for i := range samples {
		s := f.clients[i*7919%len(f.clients)]
		begin := time.Now()
		s.conn.Close()
		again, err := f.open(ctx, f.gateways[i%len(f.gateways)].url, s.id)
		if err != nil {
			return err
		}
		times = append(times, time.Since(begin))
		if again.id != s.id {
			return errors.New("another session was resumed")
		}
		*s = *again
	}
	fmt.Println("cut → resumed through another gateway:", quantiles(times))
	return nil
}

func quantiles(times []time.Duration) string {
	if len(times) == 0 {
		return "nothing was measured"
	}
	slices.Sort(times)
	at := func(part float64) float64 {
		return float64(times[min(int(part*float64(len(times))), len(times)-1)].Microseconds()) / 1000
	}
	return fmt.Sprintf("%.2f ms at the median, %.2f ms at the 99th percentile", at(0.5), at(0.99))
}

// anHour is how long the records live that lookups writes.
func anHour(time.Duration) time.Duration { return time.Hour }
