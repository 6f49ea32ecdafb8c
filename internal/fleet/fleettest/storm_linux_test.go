package fleettest_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/fleet"
	"github.com/tetherexec/tether/internal/fleet/directory"
	"github.com/tetherexec/tether/internal/fleet/fleettest"
	"github.com/tetherexec/tether/internal/listen"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/workload"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "of the faults of TestFleetStorm; 0: a random one")
	stormFlag = flag.Duration("storm", tethertest.Scaled(3*time.Second, 4*time.Minute), "how long TestFleetStorm causes faults")
)

const (
	// sessionTTL is much longer than any fault.
	sessionTTL = 20 * time.Minute
	// stuckTime is how long all clients together may get nothing done. Faults last seconds.
	stuckTime = time.Minute
	// calmTime is how long clients may take to end their last commands, after the last fault.
	calmTime = 2 * time.Minute
	// sessionCommands bounds the commands of a session.
	sessionCommands = 24
	// stormGates and stormHosts are how many gateways and hosts a storm has.
	stormGates, stormHosts = 3, 3
)

// A storm is a fleet with faults, and the clients that use it.
type storm struct {
	*fleettest.Fleet
	t      *testing.T
	random *rand.Rand // of the faults
	tasks  workload.Runner

	front *fleettest.Relay // clients connect to it; each connection gets the next gateway
	gates []*stormGate
	hosts []*stormHost

	cables []*cable.Cable // one for each client

	kinds    []fault     // that happen
	nodeDown atomic.Bool // a node of the cluster has died, and is not back

	mending sync.WaitGroup // faults that last for a time
	enough  atomic.Bool
	faults  map[string]int

	commands, sessions atomic.Int64
	failed             atomic.Int64 // attempts to open a session

	mu    sync.Mutex
	wrong []string
}

// A stormGate is a gateway with its own way to the hub.
type stormGate struct {
	*fleettest.Gateway
	toHub *fleettest.Relay
}

// A stormHost is a host with its own way to the hub.
type stormHost struct {
	*fleettest.Host
	toHub *fleettest.Relay
}

func (s *storm) wrongf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (s *storm) isWrong() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wrong) > 0
}

// Clients run commands while connections of clients, links to the hub and gateways fail at random, and the hub restarts. No byte is lost
// or doubled, each command runs once, each session is found again, and nothing is left.
func TestFleetStorm(t *testing.T) {
	startStorm(t, fleettest.Start(t), append(stormFaults, hubRestarts)).rage()
}

// The same with a hub of three nodes, of which one dies now and then.
func TestFleetStormOfACluster(t *testing.T) {
	if !tethertest.Soak() {
		t.Skip("this takes minutes; make soak runs it")
	}
	startStorm(t, fleettest.StartCluster(t), append(stormFaults, nodeDies)).rage()
}

// rage lets clients work while faults happen, and checks all that they have got.
func (s *storm) rage() {
	t := s.t
	var working sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for n, c := range s.cables {
		working.Go(func() { s.work(ctx, n, c.URL()) })
	}
	done := make(chan struct{})
	go func() { // ends with the clients
		defer close(done)
		working.Wait()
	}()
	s.disturb(ctx)
	s.enough.Store(true)
	s.awaitEnd(done)
	cancel()
	<-done
	s.report()
	s.checkNothingLeft()
}

func startStorm(t *testing.T, f *fleettest.Fleet, kinds []fault) *storm {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-seed %d", seed)
	s := &storm{Fleet: f, kinds: kinds, t: t, random: rand.New(rand.NewPCG(seed, 0)), faults: map[string]int{}}
	s.tasks.Dir = t.TempDir()
	s.tasks.Marker = "TETHER_STORM=" + s.tasks.Dir
	for range stormGates {
		s.gates = append(s.gates, s.startGate())
	}
	s.front = fleettest.LayRelay(t, s.targets()...)
	known := s.Hosts()
	for n := range stormHosts {
		toHub := fleettest.LayRelay(t, s.HubAddress())
		h := s.Host(fleettest.HostConfig{Host: fleet.Host{Name: fmt.Sprintf("host-%d", n)}, Address: toHub.Address(), Server: server.Config{SessionTTL: sessionTTL}})
		s.hosts = append(s.hosts, &stormHost{h, toHub})
		fleettest.Await(t, known, "a host has joined", func() bool {
			h, there := known.Get(fmt.Sprintf("host-%d", n))
			return there && h.State == directory.Reachable
		})
	}
	for range tethertest.Scaled(8, 50) {
		s.cables = append(s.cables, tethertest.LayCable(t, s.front.URL()))
	}
	return s
}

func (s *storm) startGate() *stormGate {
	toHub := fleettest.LayRelay(s.t, s.HubAddress())
	return &stormGate{s.Gateway(listen.Config{}, toHub.Address()), toHub}
}

// targets are the addresses of the gateways.
func (s *storm) targets() (list []string) {
	for _, g := range s.gates {
		list = append(list, fleettest.Target(s.t, g.URL))
	}
	return list
}

// work runs commands, in one session after the other.
func (s *storm) work(ctx context.Context, number int, url string) {
	goesOn := func(i int) bool { return (i < 1 || !s.enough.Load()) && !s.isWrong() }
	for i := 0; goesOn(i); {
		c, err := client.Dial(ctx, url, client.Options{Wait: sessionTTL, TTL: sessionTTL, OnState: func(now client.Status) {
			if now.State == client.Connecting {
				s.failed.Add(1)
			}
		}})
		if err != nil {
			s.wrongf("client %d gets no session: %v", number, err)
			return
		}
		s.sessions.Add(1)
		for last := i + 1 + rand.IntN(sessionCommands); i < last && goesOn(i); i++ {
			kind := workload.Kinds[(number+i)%len(workload.Kinds)]
			if err := s.tasks.Run(ctx, c, fmt.Sprintf("%d-%d", number, i), kind); err != nil {
				s.wrongf("command %d-%d, %s: %v", number, i, kind.Name, err)
			}
			s.commands.Add(1)
		}
		if err := c.End(ctx); err != nil {
			s.wrongf("client %d does not end its session: %v", number, err)
		}
		s.tasks.Steps.Add(1)
		c.Close()
	}
}

// A fault happens to the fleet. It calls lasting for what follows later.
type fault struct {
	name   string
	weight int
	happen func(s *storm)
}

var stormFaults = []fault{
	{"the connection of a client is cut", 8, func(s *storm) {
		c := s.cables[s.random.IntN(len(s.cables))]
		switch s.random.IntN(4) {
		case 0:
			c.Sever()
		case 1:
			c.Reset()
		case 2:
			c.CutFor(10 * time.Millisecond)
		default:
			c.Freeze()
			s.after(s.shortTime(), func() { c.Thaw() })
		}
	}},
	{"all connections of clients are cut", 1, func(s *storm) { s.front.Cut() }},
	{"the connections to a gateway are cut", 2, func(s *storm) { s.front.CutTo(fleettest.Target(s.t, s.gate().URL)) }},
	{"the way of a gateway to the hub is cut", 3, func(s *storm) { s.gate().toHub.Cut() }},
	{"a gateway has no way to the hub", 2, func(s *storm) { s.interrupt(s.gate().toHub.SetAway) }},
	{"the hub does not hear a gateway", 2, func(s *storm) { s.interrupt(s.gate().toHub.SetSilent) }},
	{"the way of a host to the hub is cut", 3, func(s *storm) { s.host().toHub.Cut() }},
	{"a host has no way to the hub", 2, func(s *storm) { s.interrupt(s.host().toHub.SetAway) }},
	{"the hub does not hear a host", 2, func(s *storm) { s.interrupt(s.host().toHub.SetSilent) }},
	{"a gateway stops", 2, func(s *storm) { s.replaceGate(func(g *stormGate) {}) }},
	{"a gateway dies", 2, func(s *storm) {
		s.replaceGate(func(g *stormGate) {
			g.toHub.SetAway(true)
			s.front.CutTo(fleettest.Target(s.t, g.URL))
		})
	}},
}

// The faults of a hub, and of a cluster.
var (
	hubRestarts = fault{"the hub restarts", 1, func(s *storm) { s.RestartHub() }}
	nodeDies    = fault{"a node of the hub dies", 2, (*storm).killNode}
)

// killNode ends a node of the cluster, unless one is down already: two of three must agree.
func (s *storm) killNode() {
	n := s.random.IntN(fleettest.Nodes)
	if !s.nodeDown.CompareAndSwap(false, true) {
		return
	}
	s.KillNode(n)
	s.after(s.longTime(), func() {
		if err := s.RestartNode(n); err != nil {
			s.wrongf("%v", err)
		}
		s.nodeDown.Store(false)
	})
}

func (s *storm) gate() *stormGate { return s.gates[s.random.IntN(len(s.gates))] }
func (s *storm) host() *stormHost { return s.hosts[s.random.IntN(len(s.hosts))] }

// shortTime and longTime are how long faults last.
func (s *storm) shortTime() time.Duration {
	return 10*time.Millisecond + time.Duration(s.random.Int64N(int64(300*time.Millisecond)))
}

func (s *storm) longTime() time.Duration {
	switch {
	case !tethertest.Soak():
		return s.shortTime()
	case s.random.IntN(20) == 0: // longer than a lease
		return 15*time.Second + time.Duration(s.random.Int64N(int64(15*time.Second)))
	}
	return time.Second + time.Duration(s.random.Int64N(int64(2*time.Second)))
}

// interrupt switches a fault on, and off again later.
func (s *storm) interrupt(turn func(on bool)) {
	turn(true)
	s.after(s.longTime(), func() { turn(false) })
}

// after does something later. The storm waits for it.
func (s *storm) after(d time.Duration, do func()) {
	s.mending.Go(func() {
		time.Sleep(d)
		do()
	})
}

// replaceGate starts another gateway in place of one, which then stops, as after a rolling upgrade; how happens before.
func (s *storm) replaceGate(how func(*stormGate)) {
	n := s.random.IntN(len(s.gates))
	old := s.gates[n]
	s.gates[n] = s.startGate()
	s.front.SetTargets(s.targets()...)
	how(old)
	s.mending.Go(old.Stop)
}

// disturb causes faults. A fault follows the last one when clients have got something done, or after a pause.
func (s *storm) disturb(ctx context.Context) {
	total := 0
	for _, f := range s.kinds {
		total += f.weight
	}
	for begin := time.Now(); time.Since(begin) < *stormFlag && !s.isWrong(); {
		pause := time.Duration(s.random.Int64N(int64(tethertest.Scaled(150*time.Millisecond, 600*time.Millisecond))))
		s.awaitSteps(ctx, s.random.IntN(50), pause)
		at := s.random.IntN(total)
		n := slices.IndexFunc(s.kinds, func(f fault) bool { at -= f.weight; return at < 0 })
		s.faults[s.kinds[n].name]++
		s.kinds[n].happen(s)
	}
	s.mending.Wait()
}

// awaitSteps waits for a pause, and then until the clients have made some steps, for as long as three pauses.
func (s *storm) awaitSteps(ctx context.Context, steps int, pause time.Duration) {
	time.Sleep(pause)
	target := s.tasks.Steps.Load() + int64(steps)
	for begin := time.Now(); s.tasks.Steps.Load() < target && time.Since(begin) < 3*pause && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
}

// awaitEnd waits until the clients have ended. If they get nothing done, it says where all goroutines are.
func (s *storm) awaitEnd(done <-chan struct{}) {
	begin, last, since := time.Now(), int64(0), time.Now()
	for {
		select {
		case <-done:
			s.t.Logf("the clients have ended %v after the last fault", time.Since(begin).Round(time.Millisecond))
			return
		case <-time.After(10 * time.Millisecond):
		}
		if now := s.tasks.Steps.Load(); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > stuckTime || time.Since(begin) > calmTime {
			s.wrongf("the clients have made the last step %v ago", time.Since(since))
			pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			return
		}
	}
}

// checkNothingLeft waits until no host has a command or a link. A session is left if the answer to initialize was lost: the client has
// opened another one.
func (s *storm) checkNothingLeft() {
	if s.t.Failed() {
		return
	}
	tethertest.Eventually(s.t, func() error {
		left := int64(0)
		for _, h := range s.hosts {
			sessions, running := h.Server.Load()
			if running > 0 || h.Links() > 0 {
				return fmt.Errorf("a host has %d sessions with %d commands, and %d links", sessions, running, h.Links())
			}
			left += int64(sessions)
		}
		if failed := s.failed.Load(); left > failed {
			return fmt.Errorf("%d sessions are left, and only %d attempts to open one have failed", left, failed)
		}
		return nil
	})
}

func (s *storm) report() {
	s.t.Logf("%d commands in %d sessions", s.commands.Load(), s.sessions.Load())
	for _, f := range s.kinds {
		s.t.Logf("%4d times, %s", s.faults[f.name], f.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, what := range s.wrong {
		if i == 5 {
			s.t.Errorf("and %d more", len(s.wrong)-i)
			break
		}
		s.t.Error(what)
	}
}
