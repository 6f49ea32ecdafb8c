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
//	TETHER_CRASH=session.restoring@p    behind each effect of that point which belongs to p
//	TETHER_CRASH=~300                  behind an effect that is chosen at random among the first 300
//	TETHER_CRASH=@FILE                 as the file says, in the next worker of a server with a keeper, which empties the file
//
// The ways to die are kill (SIGKILL, which is the default), panic (deferred calls run, and
// other goroutines go on for a moment, as on a busy machine), segv (an invalid address: the runtime ends the
// process without deferred calls) and hang (the goroutine does nothing any more).
//
// In a server with a keeper only workers die. With TETHER_CRASH_WORKER=1,3 only the first and the third do.
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
	"time"
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

// PassedBy is Passed for an effect that belongs to something with a name.
func (p *Point) PassedBy(name string) {
	if chosen != nil {
		chosen.passedBy(p, name)
	}
}

// WorkerVariable is the name of the environment variable with the numbers of the workers that die.
const WorkerVariable = "TETHER_CRASH_WORKER"

// Worker is called by the processes of a server with a keeper, before their first effect: with the number of
// the worker, from 1, or with 0 by a process that becomes the keeper.
func Worker(number int) {
	only, ok := os.LookupEnv(WorkerVariable)
	if number == 0 || ok && !slices.Contains(strings.Split(only, ","), strconv.Itoa(number)) {
		chosen = nil
		return
	}
	if name, ok := strings.CutPrefix(os.Getenv(Variable), "@"); ok {
		text, err := os.ReadFile(name)
		if err == nil && len(text) > 0 {
			err = os.Truncate(name, 0)
		}
		chosen = planned(string(text), err)
	}
}

// chosen is where this process dies; nil: nowhere. Only Worker changes it.
var chosen = func() *plan {
	text := os.Getenv(Variable)
	if strings.HasPrefix(text, "@") {
		return nil
	}
	return planned(text, nil)
}()

// planned returns the plan in a text. A test that does not crash must not look like one that survived: so this process ends if
// there is something wrong.
func planned(text string, err error) *plan {
	if text == "" && err == nil {
		return nil
	}
	var p *plan
	if err == nil {
		p, err = parse(text)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Variable, err)
		os.Exit(2)
	}
	return p
}

// A plan says at which point to die.
type plan struct {
	point string // "": any
	n     int64  // behind the n-th effect
	by    string // behind each effect of what has this name; "": n counts
	die   func(name string)
	count atomic.Int64
}

var ways = map[string]func(name string){
	"kill": func(string) { kill() },
	"panic": func(name string) {
		panic(lingering(name))
	},
	"hang": func(string) { select {} },
	"segv": func(string) {
		*(*byte)(unsafe.Add(nil, invalid)) = 0
	},
}

// A lingering is the name of a point, as the value of a panic. The runtime asks for its text when the deferred calls
// have run, and before it ends the process: other goroutines go on meanwhile.
type lingering string

// Error implements error.
func (name lingering) Error() string {
	time.Sleep(rand.N(lingerTime))
	return "death at " + string(name)
}

// lingerTime is more than a client needs to resume its session and to read.
const lingerTime = 50 * time.Millisecond

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
	if p.point, p.by, ok = strings.Cut(text, "@"); ok {
		return p, nil
	}
	p.point = ""
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
	if p.by == "" && (p.point == "" || p.point == at.name) && p.count.Add(1) == p.n {
		fmt.Fprintln(os.Stderr, "crash point", at.name)
		p.die(at.name)
	}
}

func (p *plan) passedBy(at *Point, name string) {
	if p.by == "" {
		p.passed(at)
	} else if p.point == at.name && p.by == name {
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
