package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/crash"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/internal/tethertest/executable"
	"github.com/tetherexec/tether/internal/tethertest/soak"
	"github.com/tetherexec/tether/internal/tethertest/workload"
)

// deathsFlag changes the length of a storm.
var deathsFlag = flag.Int("deaths", tethertest.Scaled(20, 10_000), "deaths of workers in TestKeeperStorm")

// A storm is a server whose workers die all the time while clients use it.
type storm struct {
	*keptServer
	cable *cable.Cable
	tasks workload.Runner
	plan  string // a file that says where the next worker dies
	log   stormLog

	clients  int
	deaths   int           // of workers, until it is enough
	enough   chan struct{} // closed then
	commands atomic.Int64
	sessions atomic.Int64
	cuts     int
	upgrades int
	renewals int

	mu    sync.Mutex
	wrong []string // what should not have happened
}

// faultf notes that something has happened that should not. The storm ends soon.
func (s *storm) faultf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// faults returns what should not have happened.
func (s *storm) faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wrong)
}

const (
	// stuckTime is how long all clients together may make no step. On an idle machine they make thousands per second.
	stuckTime = time.Minute
	// stormLimit is for the whole storm.
	stormLimit = 10 * time.Minute
	// sessionCommands bounds the commands of a session. The server keeps those that have ended for a time, which begins again with
	// each worker.
	sessionCommands = 24
)

// Workers are killed at random moments, or die behind a lasting effect, keepers replace themselves, and connections are cut,
// while clients run commands: each command runs once, with all of its output and input, and its exit code. In the end nothing is
// left. Faults follow the steps of the clients and not the clock, so that a busy machine takes longer and is no reason to fail.
//
// At full length, the server is the program as it is released, which starts faster than one with the race detector.
func TestKeeperStorm(t *testing.T) {
	t.Parallel()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if soak.Full() {
		path = released(t)
	}
	s := startStorm(t, path)
	s.deaths, s.clients = *deathsFlag, tethertest.Scaled(4, 20)
	s.run(t)
	if len(s.faults()) == 0 {
		s.end(t)
	}
	s.report(t)
}

// startStorm starts the server of a storm.
func startStorm(t *testing.T, path string) *storm {
	t.Helper()
	s := &storm{tasks: workload.Runner{Dir: t.TempDir()}, enough: make(chan struct{})}
	s.plan = filepath.Join(s.tasks.Dir, "plan")
	s.planDeath("")
	cmd := exec.CommandContext(t.Context(), s.copyProgram(path), "serve", "--keeper", "--log-level", "info")
	cmd.Stderr = &s.log
	s.keptServer = awaitKeeper(t, startProgram(t, []string{crash.Variable + "=@" + s.plan, hastyVariable + "=" + hastyRenew}, cmd))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the server: %s", s.log.end())
		}
	})
	s.cable = tethertest.LayCable(t, s.url)
	s.tasks.Marker = "TETHER_STORM=" + s.tasks.Dir
	s.useSandbox(t)
	s.awaitWorker(t, 0)
	return s
}

// run lets clients work until enough workers have died, or something is wrong.
func (s *storm) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), tethertest.Scaled(stormLimit, 10*stormLimit))
	defer cancel()
	var working sync.WaitGroup
	for n := range s.clients {
		working.Go(func() { s.work(ctx, n) })
	}
	s.disturb(ctx, t.Logf)
	s.planDeath("") // the worker that ends the server is the last one
	close(s.enough)
	done := make(chan struct{})
	go func() { // ends with the clients
		defer close(done)
		working.Wait()
	}()
	for !isClosed(done) && s.awaitSteps(ctx, 1, func() bool { return isClosed(done) }) {
	}
	cancel()
	<-done
}

// end ends the server, and checks that nothing is left.
func (s *storm) end(t *testing.T) {
	s.checkEmpty(t)
	groups := s.cgroups()
	s.stop(t)
	for _, pattern := range groups {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("cgroups are left: %v", left)
		}
	}
}

// useSandbox finds out whether this machine has sandboxes.
func (s *storm) useSandbox(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Log("no sandboxed commands: ", err)
		return
	}
	s.tasks.Sandbox = workspaceWrite(t, s.tasks.Dir)
}

// planDeath says where the next worker dies, see package crash. Those after it do not, until the next call.
func (s *storm) planDeath(text string) {
	err := os.WriteFile(s.plan+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(s.plan+".new", s.plan)
	}
	if err != nil {
		s.faultf("%v", err)
	}
}

// disturb causes faults until enough workers have died. Each worker that is not killed earlier dies by the plan that it
// finds at its start.
func (s *storm) disturb(ctx context.Context, logf func(string, ...any)) {
	keeper, begin, told := s.image(), time.Now(), 0
	var plans []string // which the present worker may have found
	for died, before := 0, 0; died < s.deaths; died = s.log.deaths() {
		if died > before {
			plans, before = plans[len(plans)-1:], died
		}
		if image := s.image(); image != keeper {
			keeper = image
			s.renewals++
		}
		if died >= told+tellDeaths {
			logf("%d deaths after %v", died, time.Since(begin).Round(time.Second))
			told = died
		}
		plans = append(plans, randomPlan())
		s.planDeath(plans[len(plans)-1])
		steps, happened := 1+rand.IntN(killSteps), func() bool { return s.log.deaths() > died }
		if rand.IntN(4) == 0 { // while a worker takes over, or soon after: the clients make no steps then
			steps = 0
			time.Sleep(rand.N(killTime))
		}
		if !s.awaitSteps(ctx, steps, happened) {
			return
		}
		switch kind := rand.IntN(faultKinds); {
		case happened():
		case kind == 0:
			s.upgradeByFile()
		case kind < faultKinds/8:
			s.cut()
		default:
			if pid := s.worker(); pid != 0 {
				syscall.Kill(pid, randomSignal(plans))
			}
			s.awaitSteps(ctx, killSteps, happened)
		}
	}
}

const (
	// killSteps bounds the steps of the clients between two deaths.
	killSteps = 60
	// killTime bounds the time after which a worker is killed while it takes over.
	killTime = 40 * time.Millisecond
	// tellDeaths is after how many deaths the progress is logged.
	tellDeaths = 500
	// faultKinds is one in how many faults is an upgrade.
	faultKinds = 64
)

// stormPoints are the crash points of a storm: all but the one that ends the server.
var stormPoints = slices.DeleteFunc(crash.Names(), func(name string) bool { return name == "keep.bye" })

// randomPlan says where a worker dies; "": nowhere.
func randomPlan() string {
	way := []string{"kill", "panic", "segv"}[rand.IntN(3)]
	switch rand.IntN(4) {
	case 0:
		return ""
	case 1:
		return "~1000," + way
	}
	return fmt.Sprintf("%s:%d,%s", stormPoints[rand.IntN(len(stormPoints))], 1+rand.IntN(3), way)
}

// randomSignal returns a signal for a worker with one of these plans. If a program of Go gets a second fatal signal while it
// prints the stacks of its goroutines because of a first one, its runtime (Go 1.26) may wait for itself for ever.
func randomSignal(plans []string) syscall.Signal {
	prints := func(plan string) bool { return strings.HasSuffix(plan, ",panic") || strings.HasSuffix(plan, ",segv") }
	if slices.ContainsFunc(plans, prints) || rand.IntN(2) == 0 {
		return syscall.SIGKILL
	}
	return syscall.SIGSEGV
}

// copyProgram makes the file of the server's program anew.
func (s *storm) copyProgram(path string) string {
	name := filepath.Join(s.tasks.Dir, "tether")
	err := executable.Copy(path, name+".new")
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		s.faultf("%v", err)
	}
	return name
}

// upgradeByFile lets the server upgrade itself, to another copy of its program.
func (s *storm) upgradeByFile() {
	s.upgrades++
	s.copyProgram(s.Path)
	s.Process.Signal(syscall.SIGHUP)
}

// cut breaks all connections, in one of several ways.
func (s *storm) cut() {
	s.cuts++
	switch rand.IntN(3) {
	case 0:
		s.cable.Sever()
	case 1:
		s.cable.Reset()
	default:
		s.cable.CutFor(10 * time.Millisecond)
	}
}

// awaitSteps waits until the clients have made so many more steps, or until something has happened. If they make none, it lets the worker
// say where it is.
func (s *storm) awaitSteps(ctx context.Context, more int, happened func() bool) bool {
	const look = time.Millisecond
	last, since := s.tasks.Steps.Load(), time.Now()
	for target := last + int64(more); last < target && !happened(); {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			s.faultf("the storm takes too long")
			return false
		}
		switch now := s.tasks.Steps.Load(); {
		case now != last:
			last, since = now, time.Now()
		case len(s.faults()) > 0:
			return false
		case time.Since(since) > stuckTime:
			s.faultf("the clients have done nothing for %v", stuckTime)
			s.ask()
			return false
		}
	}
	return true
}

// ask lets the worker say where it is, or if there is none the keeper.
func (s *storm) ask() {
	pid := s.worker()
	if pid == 0 {
		pid = s.Process.Pid
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		s.log.Write(text)
	}
	died := s.log.deaths()
	syscall.Kill(pid, syscall.SIGQUIT)
	for range 1000 { // a second
		if s.log.deaths() > died {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// image changes when the keeper replaces itself: it has the random addresses of the program's memory.
func (s *storm) image() string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", s.Process.Pid))
	return string(text)
}

// work runs commands, in one session after the other, until enough workers have died, and each kind of command at least once.
func (s *storm) work(ctx context.Context, number int) {
	goesOn := func(i int) bool { return (i < len(workload.Kinds) || !isClosed(s.enough)) && len(s.faults()) == 0 }
	for i := 0; goesOn(i); {
		c, err := client.Dial(ctx, s.cable.URL(), client.Options{Wait: stormLimit, TTL: time.Hour})
		if err != nil {
			s.faultf("%v", err)
			return
		}
		s.sessions.Add(1)
		for last := i + 1 + rand.IntN(sessionCommands); i < last && goesOn(i); i++ {
			name := fmt.Sprintf("%d-%d", number, i)
			kind := workload.Kinds[(number+i)%len(workload.Kinds)]
			if err := s.tasks.Run(ctx, c, name, kind); err != nil {
				s.faultf("command %s, %s: %v", name, kind.Name, err)
			}
			s.commands.Add(1)
		}
		if err := c.End(ctx); err != nil {
			s.faultf("%v", err)
		}
		s.tasks.Steps.Add(1)
		c.Close()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
