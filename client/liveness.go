package client

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// Limits by which a slow connection is told from a dead one.
const (
	// slowestLink is the lowest rate of a slow link, in bytes per second, while the answer
	// to a follow-up waits behind output. If fewer bytes arrive, the server has nothing
	// else to send, and the answer would be here. A large request that leaves before the
	// follow-up gets its time at the same rate.
	slowestLink = 16 << 10

	// maxOutputAhead is how much output may arrive before the answer to a follow-up. The
	// reference server and the kernels on the way hold about 30 MiB.
	maxOutputAhead = 64 << 20

	// longestFollowUp is how long an answer may wait behind output on a slow link.
	longestFollowUp = 5 * time.Minute

	// checks is how many times a connection is checked within each time limit.
	checks = 10

	// unheardLimit is the shortest time without a byte from the client after which the
	// server counts as unreachable: the client sends a ping every 10 s at least.
	unheardLimit = 20 * time.Second
)

// A watcher ends a connection that is dead in one or both directions. Only the goroutine
// of link.watch uses it.
type watcher struct {
	link   *Link
	tasks  *sync.WaitGroup // for questions that wait for their answers
	before rpc.Signs       // at the last check

	silent int       // checks in a row at which nothing had been received for too long
	asked  time.Time // when the server was last sent a ping or a status
	status *question // an environment/status that waits for its answer; nil: none
	follow *followUp // nil: none
	last   time.Time // when the last follow-up was answered

	reports uint64    // reports of the server that were processed
	unheard time.Time // when the server first reported that it receives nothing; zero: it receives
}

// A question is an environment/status request.
type question struct {
	call     atomic.Pointer[rpc.Call] // nil: it has not left yet
	sent     time.Time
	received uint64 // bytes that were received before
	answered atomic.Bool
}

// A followUp is a question that is sent because a request is not answered, and that any
// server answers at once. Output that comes meanwhile does not count as an answer.
type followUp struct {
	method string // of the request that was not answered
	ping   uint64 // its number; 0: it is the status

	took   time.Duration // the part of the waiting time that counts
	credit int64         // bytes that were received beyond the rate of the slowest link
	ahead  uint64        // bytes of messages that were received instead of the answer
}

// watch checks the connection regularly until it ends.
func (l *Link) watch() {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	w := watcher{link: l, tasks: &tasks, before: l.conn.Signs(), asked: time.Now()}
	timer := time.NewTimer(w.pause())
	defer timer.Stop()
	for {
		select {
		case <-l.conn.Context().Done():
			return
		case <-timer.C:
		}
		if dead := w.check(time.Now()); dead != nil {
			l.close(dead)
			return
		}
		timer.Reset(w.pause())
	}
}

// pause is the time until the next check.
func (w *watcher) pause() time.Duration {
	o := &w.link.client.opts
	if w.follow != nil {
		return o.followUpTime() / checks
	}
	return min(o.Silence, o.FollowUp) / checks
}

// check returns why the connection is dead; nil if it is not.
func (w *watcher) check(now time.Time) error {
	o, conn := &w.link.client.opts, w.link.conn
	if w.status != nil && w.status.answered.Load() {
		w.status = nil
	}
	signs, waiting := conn.Signs(), conn.Waiting(w.statusCall())
	defer func() { w.before = signs }()
	if w.isSilent(now, signs, waiting) {
		return fmt.Errorf("nothing was heard from the server for %s", shortDuration(o.Silence))
	}
	if w.isUnheard(now, signs) {
		return fmt.Errorf("the server has heard nothing from this client for %s, though it sends output", shortDuration(signs.Unheard.Round(time.Second)))
	}
	if now.Sub(w.asked) >= o.Silence/2 {
		w.asked = now
		if conn.CanPing() {
			conn.Ping()
		} else {
			w.ask(now)
		}
	}
	return w.followUp(now, signs, waiting)
}

func (w *watcher) statusCall() *rpc.Call {
	if w.status == nil {
		return nil
	}
	return w.status.call.Load()
}

// isSilent reports whether nothing has come from the server for too long. That takes two
// checks: if this program was stopped, bytes may have arrived that were not read yet.
func (w *watcher) isSilent(now time.Time, signs rpc.Signs, waiting rpc.Waiting) bool {
	limit := now.Add(-w.link.client.opts.Silence)
	var silent bool
	if conn := w.link.conn; conn.CanPing() {
		silent = !conn.LastRead().After(limit)
	} else { // a status was sent instead of a ping
		q := w.status
		silent = q != nil && !q.sent.After(limit) && q.received == signs.Received && w.mustAnswer(waiting)
	}
	if !silent {
		w.silent = 0
		return false
	}
	w.silent++
	return w.silent > 1
}

// isUnheard reports whether the server has received nothing from this client for too long.
// That takes two reports of the server: at the first, bytes may have arrived there that it
// had not read yet, and a report may be as old as the output before it.
func (w *watcher) isUnheard(now time.Time, signs rpc.Signs) bool {
	o := &w.link.client.opts
	if signs.Reports == w.reports {
		return false
	}
	w.reports = signs.Reports
	switch {
	case signs.Unheard < max(o.Silence, unheardLimit):
		w.unheard = time.Time{}
	case w.unheard.IsZero():
		w.unheard = now
	default:
		return now.Sub(w.unheard) >= o.timeouts.followUp
	}
	return false
}

// ask sends an environment/status, unless one is on its way. It takes none of the slots
// for calls.
func (w *watcher) ask(now time.Time) {
	if w.status != nil {
		return
	}
	conn := w.link.conn
	q := &question{sent: now, received: w.before.Received}
	w.status = q
	w.tasks.Go(func() { // ends with the connection
		call, err := conn.Begin(conn.Context(), wire.MethodEnvironmentStatus, nil)
		if err != nil {
			return
		}
		q.call.Store(call)
		call.Wait(conn.Context())
		q.answered.Store(true)
	})
}

// mustAnswer reports whether an environment/status is answered before the requests that
// wait. The reference server executes one request after the other.
func (w *watcher) mustAnswer(waiting rpc.Waiting) bool {
	return w.link.has(FeatureConcurrent) || waiting.Calls == 0 || waiting.Oldest.After(w.status.sent)
}

// followUp sends a follow-up when a request is not answered in time, and returns an error if
// the follow-up shows that the connection is dead.
func (w *watcher) followUp(now time.Time, signs rpc.Signs, waiting rpc.Waiting) error {
	o := &w.link.client.opts
	f := w.follow
	switch {
	case waiting.Calls == 0:
		w.follow = nil
	case f == nil:
		since := waiting.Oldest
		if w.last.After(since) {
			since = w.last
		}
		if now.Sub(since) >= o.FollowUp {
			w.begin(now, waiting.Method)
		}
	case f.ping > 0 && signs.Pong >= f.ping, f.ping == 0 && w.status == nil:
		w.follow, w.last = nil, now
	case f.ping == 0 && !w.mustAnswer(waiting):
	case f.isDead(o, w.before, signs, waiting):
		return fmt.Errorf("requests do not reach the server: `%s` was not answered for %s, and neither was a follow-up",
			f.method, shortDuration(now.Sub(waiting.Oldest).Round(time.Second)))
	}
	return nil
}

// begin sends a follow-up. It is a status, which passes through every proxy, if the server
// answers that at once, otherwise a ping.
func (w *watcher) begin(now time.Time, method string) {
	w.follow = &followUp{method: method}
	if conn := w.link.conn; conn.CanPing() && !w.link.has(FeatureConcurrent) {
		w.follow.ping = conn.Ping()
		return
	}
	w.ask(now)
}

// isDead checks a follow-up that is not answered yet. Time counts while this client waits
// for bytes, unless something shows that the answer may still arrive.
func (f *followUp) isDead(o *Options, before, signs rpc.Signs, waiting rpc.Waiting) bool {
	step := o.followUpTime() / checks
	received := int64(signs.Received - before.Received)
	slowest := int64(slowestLink * step.Seconds()) // bytes from one check to the next
	f.ahead += signs.Messages - before.Messages
	switch {
	case signs.Answers > before.Answers: // to other requests, which therefore reach the server
		f.took, f.credit, f.ahead = 0, 0, 0
	case !signs.Reading: // bytes may wait until this client reads them
	case signs.Unacknowledged && signs.Acknowledged > before.Acknowledged: // it is still on its way
	case received >= slowest && signs.Messages == before.Messages: // a large message arrives, perhaps an answer
	default:
		f.took += step
		f.credit = min(f.credit+received-slowest, checks*slowest)
	}
	return f.credit <= -checks*slowest-int64(waiting.Largest) || f.took >= longestFollowUp || f.ahead >= maxOutputAhead
}
