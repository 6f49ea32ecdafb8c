package directory

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tetherexec/tether/internal/fleet"
)

// runHosts returns a table that is kept up to date until stop is called, or the test ends.
func runHosts(t *testing.T, bus *nats.Conn, gateway bool) (hosts *Hosts, stop func()) {
	t.Helper()
	hosts, err := NewHosts(bus, gateway, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { // ends with ctx
		if err := hosts.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	select {
	case <-hosts.Loaded():
	case <-time.After(patience):
		t.Fatal("the table is not loaded")
	}
	return hosts, stop
}

// silence makes a table believe that it has not heard of a host for so long, and ends the lease of the host.
func silence(t *testing.T, hosts *Hosts, name string, age time.Duration) {
	t.Helper()
	e, err := hosts.leases.get(t.Context(), name, true)
	if err == nil && e.value != nil {
		_, err = hosts.leases.put(t.Context(), name, nil, e.rev, time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	hosts.mu.Lock()
	defer hosts.mu.Unlock()
	hosts.hosts[name].heard = time.Now().Add(-age)
}

// state is how a program that starts now sees a host; "": it does not know it.
func state(t *testing.T, bus *nats.Conn, name string) (State, HostState) {
	t.Helper()
	hosts, stop := runHosts(t, bus, false)
	defer stop()
	h, _ := hosts.Get(name)
	return h.State, h
}

// A program that starts when a host is not reachable any more learns what gateways have heard of it last. When the host has come back, it is as
// any other, and when it has left, it is not known.
func TestUnreachableHostsAreRecorded(t *testing.T) {
	t.Parallel()
	bus := connect(t)
	runLeases(t, bus("_L"))
	gateway, second, operator := bus("_G"), bus("_S"), bus("_O")
	hosts, _ := runHosts(t, gateway, true)
	box := bus(fleet.HostInbox("box"))
	h := describe("box")
	h.Labels, h.Running = []string{"gpu"}, 3
	awaitLease(t, box, h)
	known := func() State {
		h, _ := hosts.Get("box")
		return h.State
	}
	await := func(what string, holds func() bool) {
		t.Helper()
		deadline := time.After(patience)
		for {
			changed := hosts.Changed()
			if holds() {
				return
			}
			select {
			case <-changed:
			case <-time.After(10 * time.Millisecond):
			case <-deadline:
				t.Fatalf("not yet: %s", what)
			}
		}
	}
	await("the host has joined", func() bool { return known() == Reachable })

	const age = time.Hour
	silence(t, hosts, "box", age)
	await("a new program knows the host", func() bool { s, _ := state(t, operator, "box"); return s == Unreachable })
	if _, got := state(t, operator, "box"); got.Age < age || got.Age > age+time.Minute || got.Running != 3 || !got.HasLabels([]string{"gpu"}) || got.Instance != h.Instance {
		t.Errorf("%+v", got)
	}
	late, _ := runHosts(t, second, true) // a gateway that starts now
	if _, err := late.Choose(Query{Labels: []string{"gpu"}}); err == nil || err.Error() != "no host with the label gpu is reachable now" {
		t.Errorf("a new session: %v", err)
	}

	var lease *Lease
	claim := func() (err error) {
		lease, err = Claim(t.Context(), box, h)
		return err
	}
	if err := untilAnswered(claim); err != nil {
		t.Fatal(err)
	}
	await("it is back", func() bool { return known() == Reachable })
	if s, _ := state(t, operator, "box"); s != Reachable {
		t.Errorf("a new program after the return: %q", s)
	}
	if err := late.load(t.Context()); err != nil {
		t.Error(err)
	}
	if got, _ := late.Get("box"); got.State != Reachable {
		t.Errorf("a gateway that knew it from its record: %+v", got)
	}

	silence(t, hosts, "box", age)
	silence(t, late, "box", age-time.Minute) // another gateway has heard of it later
	await("recorded by both", func() bool {
		_, got := state(t, operator, "box")
		return got.State == Unreachable && got.Age < age
	})
	third, _ := runHosts(t, bus("_T"), true)
	if err := untilAnswered(func() error { return lease.Release(t.Context(), h) }); err != nil {
		t.Error(err)
	}
	await("it has left", func() bool { return known() == "" })
	if s, _ := state(t, operator, "box"); s != "" {
		t.Errorf("a new program after it has left: %q", s)
	}
	if err := third.load(t.Context()); err != nil {
		t.Error(err)
	}
	if got, known := third.Get("box"); known {
		t.Errorf("a gateway that knew it from its record: %+v", got)
	}
}

// The clock of the gateway that has recorded a host may be a minute fast or slow. Then others see another age, and nothing else differs: the host
// counts as unreachable, its record is not written again and again, and it comes back.
func TestClocksMayDiffer(t *testing.T) {
	t.Parallel()
	const age = 5 * time.Minute
	for what, skew := range map[string]time.Duration{"fast": time.Minute, "slow": -time.Minute} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			bus := connect(t)
			runLeases(t, bus("_L"))
			gateway, box, operator := bus("_G"), bus(fleet.HostInbox("box")), bus("_O")
			hosts, _ := runHosts(t, gateway, true)
			h := describe("box")
			heard := time.Now().Add(-age)
			ours, theirs := lastHeard{h, heard.UnixMilli()}, lastHeard{h, heard.Add(skew).UnixMilli()}
			for range 2 { // either may be first
				for _, last := range []lastHeard{theirs, ours} {
					if err := hosts.record(t.Context(), last); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := min(age, age-skew) // the later of the two is kept
			if s, got := state(t, operator, "box"); s != Unreachable || got.Age < want || got.Age > want+time.Minute {
				t.Errorf("%s, not heard of for %v, want %v", s, got.Age, want)
			}
			awaitLease(t, box, h)
			if s, got := state(t, operator, "box"); s != Reachable {
				t.Errorf("after the return: %s %+v", s, got)
			}
		})
	}
}

// Only what gateways have written is a record, and a record is never older than the time after which hosts are forgotten.
func TestRecordsOfHosts(t *testing.T) {
	t.Parallel()
	hosts := table()
	h := describe("box")
	hosts.learnLocked(map[string]lastHeard{"box": {h, time.Now().Add(time.Hour).UnixMilli()}, "old": {describe("old"), 1}}, time.Now())
	if got, _ := hosts.Get("box"); got.State != Unreachable || got.Age < fleet.LeaseTime { // the clock of its gateway is fast
		t.Errorf("%+v", got)
	}
	if got, _ := hosts.Get("old"); got.Age < forgetAfter {
		t.Errorf("%+v", got)
	}
	for key, value := range map[string]string{
		"box":                    `{"name":"box"}`,
		fleet.LastPrefix + "box": `{"name":"other"}`,
		fleet.LastPrefix:         `{}`,
		fleet.LastPrefix + "a":   `x`,
	} {
		if last, ok := decodeLast(entry{key: key, value: []byte(value)}); ok {
			t.Errorf("%s: %+v", key, last)
		}
	}
}
