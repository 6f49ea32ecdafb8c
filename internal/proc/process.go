package proc

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tetherexec/tether/internal/account"
)

// terminateGrace is how long a terminated process may clean up before it is killed,
// and then how long its output is still read: a process that no kill can reach may
// hold the other end for ever.
const terminateGrace = 200 * time.Millisecond

// state only moves forward.
type state uint8

const (
	running state = iota
	exited        // the child has exited; its output may continue
	closed        // the output has ended too; the sink is closed or about to be
)

// A Process is one child and everything that it started.
type Process struct {
	sup       *Supervisor
	child     *child
	spec      Spec
	sink      Sink
	startedAt time.Time
	stdin     input // nil: none
	outputs   []*output
	done      chan struct{} // closed after the sink is
	size      atomic.Uint32 // last known size of the terminal: rows << 16 | columns; 0: not known

	mu       sync.Mutex
	state    state
	code     int          // valid once exited
	usage    usage        // known once exited
	ending   *termination // set once terminated
	killing  int          // Kill calls that are running on the tree: it must not be released
	released bool         // the descriptors of the child are closed
	settled  bool         // all processes have ended and the tree is released
	freed    func()       // called when the slot is freed; nil: the slot is needed
	timer    *time.Timer  // ends it when its time is up; nil: its time is not limited, or has ended
	timedOut bool         // terminated because its time was up
	lost     bool         // its server was killed, and it was ended because of that; never changes

	survivors []Survivor // what the last kill has left
}

// input is the standard input of a process.
type input interface {
	// write queues input, see Process.Write.
	write(b []byte, note func(ordinal uint64) error, done func(error))
	// finish ends the input after the queued bytes, see Process.CloseStdinNoted.
	finish(note func(ordinal uint64) error) error
	// end refuses all further input because of err. It does not wait.
	end(err error)
	// close gives the input up. The child has exited.
	close()
}

// A termination is the requested end of a process, while it is in progress.
type termination struct {
	killNow       chan struct{} // closed: kill now
	killRequested bool          // guarded by Process.mu
	drained       chan struct{} // closed: the child has exited and its output has ended
	finished      chan struct{} // closed: all processes that this ending has to kill are gone
}

func newProcess(s *Supervisor, c *child, spec Spec, sink Sink) *Process {
	p := &Process{
		sup:       s,
		child:     c,
		spec:      spec,
		sink:      sink,
		startedAt: time.Now(),
		done:      make(chan struct{}),
	}
	switch {
	case c.stdin != nil && c.kept != nil:
		p.stdin = newKeptStdin(c.stdin, c.tty, c.kept)
	case c.stdin != nil:
		p.stdin = newStdin(c.stdin, c.tty)
	}
	for _, end := range c.outputs {
		p.outputs = append(p.outputs, newOutput(s, end, sink, spec.between)) // between: there is only one output then
	}
	return p
}

// run owns the process from start to finish. It waits in the poller, so a waiting
// child costs no thread.
func (p *Process) run() {
	defer close(p.done)
	ended := p.startCopying()
	end := p.child.wait()
	code := end.code
	p.mu.Lock()
	p.state, p.code = exited, code
	p.mu.Unlock()
	if p.stdin != nil {
		p.stdin.close() // a descendant that has inherited stdin gets the end of file, and the client's writes fail
	}
	if p.spec.Launcher != nil {
		end.init = p.awaitLaunched()
	}
	p.account(end)
	if l := p.spec.Launcher; l != nil {
		p.child.kept.launcherEnded()
		if l.Ended != nil {
			l.Ended()
		}
	}
	if code != 0 && p.spec.LateOutput > 0 {
		closedWithin(ended, p.spec.LateOutput)
	}
	caught := p.startCatchUp()
	closedWithin(caught, p.sup.fullSink)
	p.sink.Exit(code)
	if p.spec.Exited != nil {
		p.spec.Exited(code)
	}
	<-ended
	<-caught
	p.close()
}

// startCopying starts one goroutine per output, which ends at the end of the output or when
// it is cut. The returned channel is closed when the last of them has ended.
func (p *Process) startCopying() (ended <-chan struct{}) {
	done := make(chan struct{})
	if len(p.outputs) == 0 { // an adopted process whose output has ended
		close(done)
	}
	var left atomic.Int32
	left.Store(int32(len(p.outputs)))
	for _, out := range p.outputs {
		go func() { // run waits for the channel
			out.copy()
			if sink, ok := p.sink.(StreamSink); ok {
				sink.EndStream(out.stream)
			}
			if left.Add(-1) == 0 {
				close(done)
			}
		}()
	}
	return done
}

// awaitLaunched returns when all processes that a launcher started have ended, which is the case if the launcher is the
// first process of their namespace, and what they have used, if that is known. If the launcher failed before it had
// reported its processes, everything is killed.
func (p *Process) awaitLaunched() (used *account.Figures) {
	switch {
	case p.child.launched.Init != nil:
		return p.child.awaitInit()
	case p.spec.Launcher.Stays && p.child.launched.Leader == nil:
		p.child.tree.kill()
	}
	return nil
}

// account records what the process has used, and then how it has ended.
func (p *Process) account(end ending) {
	used := p.measure(end)
	p.child.kept.used(used)
	p.child.kept.exited(end.code)
	p.mu.Lock()
	p.usage = used
	p.mu.Unlock()
}

// fullSinkWait is how long an exit waits for a full sink.
const fullSinkWait = 2 * time.Second

// startCatchUp passes all output written so far to the sink, even if the copiers are
// scheduled late. The returned channel is closed when the sink has it; a full sink delays
// that.
func (p *Process) startCatchUp() (caught <-chan struct{}) {
	done := make(chan struct{})
	go func() { // run waits for the channel
		defer close(done)
		for _, out := range p.outputs {
			out.copyRest()
		}
	}()
	return done
}

// closedWithin waits until done is closed, but not longer than d, and reports whether it is.
func closedWithin(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// close ends what run began. After it Terminate has no effect.
func (p *Process) close() {
	p.Size() // while there is a terminal
	p.mu.Lock()
	e := p.ending
	if e == nil {
		p.state = closed
	}
	p.mu.Unlock()
	if e != nil {
		close(e.drained)
		<-e.finished
		p.mu.Lock()
		p.state = closed
		p.mu.Unlock()
	}
	p.sink.Close() // first, because a client waits for it
	for _, out := range p.outputs {
		out.close()
	}
	p.child.close()
	p.mu.Lock()
	p.released = true
	p.mu.Unlock()
	if !p.settle(nil) {
		p.sup.settleWithin(settleSoon)
	}
}

// settle releases the resources of a closed process if everything that it started
// has ended.
func (p *Process) settle(view tableView) bool {
	p.mu.Lock()
	if !p.settled && p.killing == 0 && p.child.releaseTree(view) {
		p.settled = true
		p.stopTimeLocked()
		p.sup.forget(p)
	}
	settled := p.settled
	p.mu.Unlock()
	if settled {
		p.freeSlot()
	}
	return settled
}

func (p *Process) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state == closed
}

// Terminated reports whether the process was asked to end, or killed, by [Process.Terminate] or [Process.Kill] before it was closed.
func (p *Process) Terminated() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ending != nil
}

// Pid is the child's process, group and session number.
func (p *Process) Pid() int { return p.child.pid }

// Owner is that of its Spec.
func (p *Process) Owner() string { return p.spec.Owner }

// StartedAt is the time when the program had been executed.
func (p *Process) StartedAt() time.Time { return p.startedAt }

// Done is closed when the child has exited, its output has ended, its sink is
// closed and its resources are given back.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited returns the exit code once the child has exited.
func (p *Process) Exited() (code int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.code, p.state != running
}

// Lost reports whether the process was ended because its server was killed ([Bury]): its exit code is -1.
func (p *Process) Lost() bool { return p.lost }

// Leftovers reports whether processes that this process started may still be
// running. While it is true, the owner must keep p to be able to Kill them.
func (p *Process) Leftovers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.settled
}

// Write queues input and never blocks. It keeps b, which must not change any more.
// Writes keep their order. done is called exactly once, from any goroutine, maybe
// before Write returns: with nil as soon as the input is in the queue (at most
// [stdinQueueLimit] bytes), with [ErrStdinClosed] or with [ErrTerminated].
func (p *Process) Write(b []byte, done func(error)) { p.WriteNoted(b, nil, done) }

// WriteNoted is Write for a process that may have a slot: then note is called before the input is
// accepted, with the ordinal of this write. If this program dies, the write was accepted if its
// ordinal is not above [arena.Input.Writes].
func (p *Process) WriteNoted(b []byte, note func(ordinal uint64) error, done func(error)) {
	if p.stdin == nil {
		done(ErrStdinClosed)
		return
	}
	p.stdin.write(b, note, done)
}

// CloseStdin ends the input after the queued bytes. On a terminal it writes the
// end-of-file character, as a person would type it: more input may follow.
func (p *Process) CloseStdin() error { return p.CloseStdinNoted(nil) }

// CloseStdinNoted is CloseStdin for a process that may have a slot: then note is called as for WriteNoted on a
// terminal. On a pipe it is called with 0, after the end of the input was recorded: ending the input twice
// is harmless.
func (p *Process) CloseStdinNoted(note func(ordinal uint64) error) error {
	if p.child.kept.inputClosed() {
		return nil
	}
	if p.stdin == nil {
		return ErrStdinClosed
	}
	return p.stdin.finish(note)
}

// Resize changes the size of the terminal. The system sends SIGWINCH to the
// foreground processes.
func (p *Process) Resize(rows, cols uint16) error {
	if !p.child.tty {
		return ErrNotTTY
	}
	if p.isClosed() {
		return nil
	}
	return p.child.resize(rows, cols)
}

// Size returns the size of the terminal, after the end of the output the last one. ok is false without a terminal, and if the size is not
// known.
func (p *Process) Size() (rows, cols uint16, ok bool) {
	if !p.child.tty {
		return 0, 0, false
	}
	if !p.isClosed() {
		if rows, cols, err := p.child.terminalSize(); err == nil {
			p.size.Store(uint32(rows)<<16 | uint32(cols))
		}
	}
	last := p.size.Load()
	return uint16(last >> 16), uint16(last), last != 0
}

// Signal sends sig to the child's process group. Once the child has exited this
// does nothing.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != running {
		return nil
	}
	return p.child.signalGroup(sig) // the group still belongs to the child: the child is not reaped before closed, or is pinned
}

// Terminate sends SIGTERM to everything that the process started, and kills what is
// left after [terminateGrace], or at once when called again. It reports whether the
// child was running. If the child had exited, its descendants are killed too. After
// the close nothing is killed, because a server that was left in the background is
// meant to live on.
func (p *Process) Terminate() (running bool) { return p.terminate(false) }

// Kill kills everything that the process started, also after its close, and returns
// when the process is closed. A sink that blocks delays that by a few times
// terminateGrace at most.
func (p *Process) Kill() {
	p.terminate(true)
	<-p.done
	if p.settle(readProcessTable) {
		return
	}
	p.mu.Lock()
	left := !p.settled
	if left {
		p.killing++
	}
	p.mu.Unlock()
	if !left {
		return
	}
	p.child.tree.kill()
	p.verifyKill()
	p.mu.Lock()
	p.killing--
	p.mu.Unlock()
	p.settle(readProcessTable)
}

// killWait is how long killed processes are awaited. Only a process stuck in the
// kernel takes longer.
const killWait = time.Second

func (p *Process) terminate(now bool) bool {
	p.mu.Lock()
	wasRunning := p.state == running
	if p.state == closed {
		p.mu.Unlock()
		return false
	}
	e, first, timedOut := p.ending, p.ending == nil, p.timedOut
	if first {
		e = &termination{
			killNow:  make(chan struct{}),
			drained:  make(chan struct{}),
			finished: make(chan struct{}),
		}
		p.ending = e
	}
	if (now || !first) && !e.killRequested {
		e.killRequested = true
		close(e.killNow)
	}
	p.mu.Unlock()

	if first {
		p.child.kept.ending(timedOut)
		if p.stdin != nil {
			p.stdin.end(ErrTerminated)
		}
		if !now {
			p.child.tree.signal(syscall.SIGTERM)
		}
		p.sup.tasks.Go(func() { p.enforce(e) }) // close waits for it
	}
	return wasRunning
}

// enforce kills what is left of the process after its grace, and cuts the output one
// grace later, at the sink if that is blocked. It returns when all processes are gone, or it has done what it can.
func (p *Process) enforce(e *termination) {
	defer close(e.finished)
	var look sync.WaitGroup
	defer look.Wait()
	deadline := time.Now().Add(p.sup.grace)
	grace := time.NewTimer(p.sup.grace)
	defer grace.Stop()
	drained, looked := e.drained, make(chan struct{})
	for waiting := true; waiting; {
		select {
		case <-drained:
			if p.child.tree.empty() {
				return
			}
			drained = nil
			look.Go(func() { // ends with the grace at the latest
				defer close(looked)
				p.child.tree.await(deadline) // processes may be ending, or clean up without holding our pipes
			})
		case <-looked:
			if p.child.tree.empty() {
				return
			}
			looked = nil
		case <-grace.C:
			waiting = false
		case <-e.killNow:
			waiting = false
		}
	}
	p.child.tree.kill()
	if !p.child.gone() {
		killGroup(p.child.pid) // needs no descriptor, in case there was none for the tree
	}
	p.verifyKill()
	for _, out := range p.outputs {
		out.cutAfter(p.sup.grace)
	}
	full, stuck := time.NewTimer(2*p.sup.grace), time.NewTimer(p.sup.stuck)
	defer full.Stop()
	defer stuck.Stop()
	for range 2 {
		select {
		case <-e.drained:
			return
		case <-full.C: // the sink is full and is not read
			p.sink.Cut()
		case <-stuck.C: // the child itself is a survivor
			p.child.abandon()
		}
	}
}

// stuckWait is how long the exit of a child is awaited after it was killed. Then the process is closed without an exit code. On a
// busy machine a killed process may need seconds until it gets a processor.
const stuckWait = 6 * time.Second
