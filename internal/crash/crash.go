// Package crash ends this process right behind a chosen lasting effect, for tests of recovery.
//
// A lasting effect is a change that the next process finds after this one has died: a
// store into shared memory, a system call that moves bytes, a message to the keeper, a
// clone, the reaping of a child. The code that causes such an effect calls Passed of a
// Point right behind it. What the next process finds changes nowhere else, so dying behind
// each point is as good as dying at any instruction.
//
// The environment variable TETHER_CRASH says where to die:
//
//	TETHER_CRASH=17                    behind the 17th effect of the process
//	TETHER_CRASH=outlog.splice:3       behind the third effect of that point
//	TETHER_CRASH=outlog.splice:3,panic the same, by a panic
//	TETHER_CRASH=~300                  behind an effect that is chosen at random among the first 300
//
// The ways to die are kill (SIGKILL, which is the default), panic (deferred calls run, and
// other goroutines go on for a moment) and segv (an invalid address: the runtime ends the
// process without deferred calls).
//
// In a server with a keeper only workers die. With TETHER_CRASH_WORKER=1 only the first of them does.
//
// Without the variable, a point costs the test of one pointer.
//
// Where a change belongs: a new effect gets its point in the package that causes it.
package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"
)

// Variable is the name of the environment variable.
const Variable = "TETHER_CRASH"

// A Point names the lasting effects of one kind.
type Point struct{ name string }

var names []string // of all points; complete when the packages are initialised

// NewPoint returns a point. It is called while packages are initialised. The name is
// PACKAGE.EFFECT.
func NewPoint(name string) *Point {
	names = append(names, name)
	return &Point{name}
}

// Names returns the names of all points of this program, sorted.
func Names() []string { return slices.Sorted(slices.Values(names)) }

// String returns the name of the point.
func (p *Point) String() string { return p.name }

// Passed is called right behind each effect of the point.
func (p *Point) Passed() {
	if chosen != nil {
		chosen.passed(p)
	}
}

// WorkerVariable is the name of the environment variable with the number of the only worker that dies.
const WorkerVariable = "TETHER_CRASH_WORKER"

// Worker is called by the processes of a server with a keeper, before their first effect: with the number of
// the worker, from 1, or with 0 by a process that becomes the keeper.
func Worker(number int) {
	only, ok := os.LookupEnv(WorkerVariable)
	if number == 0 || ok && only != strconv.Itoa(number) {
		chosen = nil
	}
}

// chosen is where this process dies; nil: nowhere. Only Worker changes it.
var chosen = func() *plan {
	text, ok := os.LookupEnv(Variable)
	if !ok || text == "" {
		return nil
	}
	p, err := parse(text)
	if err != nil { // a test that does not crash must not look like one that survived
		fmt.Fprintf(os.Stderr, "%s: %v\n", Variable, err)
		os.Exit(2)
	}
	return p
}()

// A plan says at which point to die.
type plan struct {
	point string // "": any
	n     int64  // behind the n-th effect
	die   func(name string)
	count atomic.Int64
}

var ways = map[string]func(name string){
	"kill": func(string) { kill() },
	"panic": func(name string) {
		panic("crash point " + name)
	},
	"segv": func(string) {
		*(*byte)(unsafe.Add(nil, invalid)) = 0
	},
}

// invalid is an address that is never mapped: the kernel maps nothing in the first pages,
// and Go turns only faults below 4096 into panics.
const invalid = 8192

func parse(text string) (*plan, error) {
	text, way, ok := strings.Cut(text, ",")
	if !ok {
		way = "kill"
	}
	p := &plan{die: ways[way]}
	if p.die == nil {
		return nil, fmt.Errorf("unknown way to die %q", way)
	}
	number := text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		p.point, number = text[:i], text[i+1:]
	}
	number, random := strings.CutPrefix(number, "~")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("%q is not a positive number", number)
	}
	if p.n = n; random {
		p.n = 1 + rand.Int64N(n)
	}
	return p, nil
}

func (p *plan) passed(at *Point) {
	if (p.point == "" || p.point == at.name) && p.count.Add(1) == p.n {
		p.die(at.name)
	}
}

// kill ends this process with SIGKILL.
func kill() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {} // until the kernel has ended this thread
}
