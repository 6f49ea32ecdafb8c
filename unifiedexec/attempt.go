package unifiedexec

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// closeWait is how long a call waits for the end of the output after an exit: a background
// process may hold it open for ever.
const closeWait = 50 * time.Millisecond

// An attempt is one process of a session, and its output.
type attempt struct {
	number  int
	process Process
	id      string // on the executor
	started time.Time
	ending  sync.Once

	closedNetwork bool      // its sandbox has no network, or some hosts only
	hosts         *hostDesk // asks about further hosts; may be nil

	mu              sync.Mutex
	pending         headTail // output that is in no result yet
	all             headTail
	exit            *client.Exit
	exitAt          time.Time
	closed          bool
	err             error // why the process was lost
	failureExpected bool  // the manager is ending it, so its failure is not a denial by the sandbox
	changed         chan struct{}
}

func newAttempt(number int, id string, p Process) *attempt {
	return &attempt{number: number, process: p, id: id, started: time.Now(), changed: make(chan struct{})}
}

// pump reads the events of the process until there are no more. show gets the output.
func (a *attempt) pump(ctx context.Context, show func(string)) {
	var cutter deltaCutter
	defer func() { cutter.flush(show) }()
	for {
		e, err := a.process.Next(ctx)
		if err != nil {
			a.update(func() {
				if !errors.Is(err, io.EOF) && a.exit == nil {
					a.err = err
				}
				a.closed = true
			})
			return
		}
		switch e.Kind {
		case client.Output:
			a.update(func() { a.pending.add(e.Data); a.all.add(e.Data) })
			cutter.cut(e.Data, show)
		case client.Gap:
			a.update(func() { a.pending.add(gapMark); a.all.add(gapMark) })
		case client.Exited, client.Closed:
			a.ended(ctx, e.Kind == client.Closed)
		}
	}
}

// gapMark replaces output that the executor did not keep.
var gapMark = []byte("\n... output was lost ...\n")

// ended notes the exit, with the executor's verdict, and the close.
func (a *attempt) ended(ctx context.Context, closed bool) {
	var exit client.Exit
	var err error
	if !a.hasExited() {
		exit, err = a.process.Result(ctx)
	}
	a.update(func() {
		switch {
		case a.exit != nil:
		case err != nil:
			a.err = err
		default:
			a.exit, a.exitAt = &exit, time.Now()
		}
		a.closed = a.closed || closed
	})
}

// update changes the attempt and wakes the calls that wait for a change.
func (a *attempt) update(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *attempt) hasExited() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.exit != nil || a.err != nil
}

// isOver reports whether the output has ended, or the process was lost.
func (a *attempt) isOver() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed || a.err != nil
}

// expectFailure notes that the manager, not the sandbox, is the reason if the process fails from now on.
func (a *attempt) expectFailure() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failureExpected = true
}

// outcome is the state of the attempt: alive, exited, sandboxDenied or lost. Whether there is a
// sandbox, and whether it has denied something, is what the executor reports.
func (a *attempt) outcome() (event, *client.Exit, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.err != nil:
		return lost, nil, a.err
	case a.exit == nil:
		return alive, nil, nil
	case a.exit.Code == 0 || a.process.SandboxType() == noSandbox || a.failureExpected:
	case a.hosts.userRefused() && a.neededNetworkLocked():
	case a.exit.SandboxDenied, a.neededNetworkLocked():
		return sandboxDenied, a.exit, nil
	}
	return exited, a.exit, nil
}

// neededNetwork reports whether the attempt failed because its sandbox has no network, or does not
// allow the host.
func (a *attempt) neededNetwork() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.neededNetworkLocked()
}

// neededNetworkLocked decides by the executor's facts about the failure, then by the hosts that it
// has refused, and last by the output of the command.
func (a *attempt) neededNetworkLocked() bool {
	switch {
	case !a.closedNetwork || a.exit == nil || a.exit.Code == 0:
		return false
	case a.exit.Denial != nil:
		return a.exit.Denial.Syscall != nil && *a.exit.Denial.Syscall == wire.DeniedNetwork
	}
	return len(a.refusedHosts()) > 0 || networkFailure(a.all.bytes())
}

// refusedHosts are the hosts that the executor did not let the process reach.
func (a *attempt) refusedHosts() []string {
	if p, ok := a.process.(HostRefuser); ok {
		return p.RefusedHosts()
	}
	return nil
}

// noSandbox is the SandboxType of a process without a sandbox.
const noSandbox = "none"

// take returns the output that is in no result yet. If more may come, an incomplete character
// at the end stays for the next result.
func (a *attempt) take(more bool) *headTail {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.pending
	a.pending = headTail{}
	if more {
		a.pending.add(out.cutUnfinished())
	}
	return &out
}

// transcript is all of the output that was kept.
func (a *attempt) transcript() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return decode(a.all.bytes())
}

// An until says what await waits for.
type until uint8

const (
	exitOnly until = iota // the exit
	wholeEnd              // the exit, and up to closeWait for the close
)

// await waits for the end of the attempt, or for the deadline. It reports whether the attempt
// has ended.
func (a *attempt) await(ctx context.Context, d deadline, what until) (over bool, err error) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		a.mu.Lock()
		ended, closed, exitAt, changed := a.exit != nil || a.err != nil, a.closed || a.err != nil, a.exitAt, a.changed
		a.mu.Unlock()
		if ended && (closed || what == exitOnly) {
			return true, nil
		}
		left, resumed := d.left()
		if ended {
			left = min(max(left, 0), closeWait-time.Since(exitAt))
			resumed = nil
		}
		if left <= 0 && resumed == nil {
			return ended, nil
		}
		timer.Reset(max(left, 0))
		late := timer.C
		if resumed != nil {
			late = nil
		}
		select {
		case <-changed:
		case <-resumed:
		case <-late:
		case <-ctx.Done():
			return ended, context.Cause(ctx)
		}
	}
}

// A distant process is a process whose connection to the executor may be lost.
type distant interface {
	Connection() context.Context // ends when the connection is lost
	Abandon()                    // Terminate, as soon as there is a connection
}

// terminate ends the process of the attempt, once. It sends no request for a process that has
// ended, and does not wait for an executor that cannot be reached.
func (a *attempt) terminate() {
	a.expectFailure()
	if a.isOver() {
		return
	}
	a.ending.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		far, isFar := a.process.(distant)
		if isFar {
			defer context.AfterFunc(far.Connection(), cancel)()
		}
		err := a.process.Terminate(ctx)
		switch {
		case err == nil:
			a.await(ctx, (&pausableClock{}).in(endTimeout), exitOnly)
		case isFar && ctx.Err() != nil:
			far.Abandon()
		}
		// After any other error the process ends with the executor's session.
	})
}
