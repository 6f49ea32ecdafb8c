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
	// slowestLink is how many bytes per second a slow link brings at least while the
	// answer to a follow-up waits behind output. If fewer come, the server has nothing
	// else to send, and the answer would be here. A large request takes its time at the
	// same rate, and a follow-up leaves behind it.
	slowestLink = 16 << 10

	// maxOutputAhead is how much output may come ahead of the answer to a follow-up. The
	// reference server and the kernels on the way hold about 30 MiB.
	maxOutputAhead = 64 << 20

	// longestFollowUp is how long an answer may wait behind output on a slow link.
	longestFollowUp = 5 * time.Minute

	// looks is how many times a connection is looked at in the time that it has.
	looks = 10

	// unheardLimit is the shortest time after which a server that hears nothing cannot
	// be reached: the client sends a ping every 10 s at least.
	unheardLimit = 20 * time.Second
)

// A watcher ends a connection that is dead in one or both directions. It is used by the
// goroutine of link.watch.
type watcher struct {
	link   *Link
	tasks  *sync.WaitGroup // for questions that wait for their answers
	before rpc.Signs       // at the last look

	silent int       // looks in a row at which nothing had been heard for too long
	asked  time.Time // when the server was last asked for a sign of life
	status *question // an environment/status that waits for its answer; nil: none
	follow *followUp // nil: none
	last   time.Time // when the last follow-up was answered

	reports uint64    // of the server that were seen
	unheard time.Time // when it first said that it hears nothing; zero: it hears us
}

// A question is an environment/status.
type question struct {
	call     atomic.Pointer[rpc.Call] // nil: it has not left yet
	sent     time.Time
	received uint64 // bytes that had come before
	answered atomic.Bool
}

// A followUp is a question that is sent because a request is not answered, and that any
// server answers at once. Output that comes meanwhile does not count as an answer.
type followUp struct {
	method string // of the request that was not answered
	ping   uint64 // its number; 0: it is the status

	took   time.Duration // as far as it counts
	credit int64         // bytes that have come beyond those of the slowest link
	ahead  uint64        // bytes of messages that came instead of the answer
}

// watch looks after the connection until that ends.
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
		if dead := w.look(time.Now()); dead != nil {
			l.close(dead)
			return
		}
		timer.Reset(w.pause())
	}
}

// pause is how long to wait for the next look.
func (w *watcher) pause() time.Duration {
	o := &w.link.client.opts
	if w.follow != nil {
		return o.followUpTime() / looks
	}
	return min(o.Silence, o.FollowUp) / looks
}

// look returns why the connection is dead; nil if it is not.
func (w *watcher) look(now time.Time) error {
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

// isSilent reports whether nothing has come from the server for too long. It takes two
// looks: if this program was stopped, bytes may have arrived that were not read yet.
func (w *watcher) isSilent(now time.Time, signs rpc.Signs, waiting rpc.Waiting) bool {
	limit := now.Add(-w.link.client.opts.Silence)
	var silent bool
	if conn := w.link.conn; conn.CanPing() {
		silent = !conn.LastRead().After(limit)
	} else { // then it was asked
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

// isUnheard reports whether the server tells that it has heard nothing from us for too
// long, twice: the first time it may not have read what is there, and a report may be as
// old as the output before it.
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

// ask sends an environment/status, unless one is on its way. It takes none of the places
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

// followUp asks when a request is not answered, and judges the silence that follows.
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

// begin sends a follow-up: a status, which passes through every proxy, if the server
// answers that at once, and else a ping.
func (w *watcher) begin(now time.Time, method string) {
	w.follow = &followUp{method: method}
	if conn := w.link.conn; conn.CanPing() && !w.link.has(FeatureConcurrent) {
		w.follow.ping = conn.Ping()
		return
	}
	w.ask(now)
}

// isDead takes another look at a follow-up that is not answered. Time counts while this
// client waits for bytes, unless there are signs that the answer is still to come.
func (f *followUp) isDead(o *Options, before, signs rpc.Signs, waiting rpc.Waiting) bool {
	step := o.followUpTime() / looks
	received := int64(signs.Received - before.Received)
	slowest := int64(slowestLink * step.Seconds()) // bytes from one look to the next
	f.ahead += signs.Messages - before.Messages
	switch {
	case signs.Answers > before.Answers: // to other requests: those still arrive
		f.took, f.credit, f.ahead = 0, 0, 0
	case !signs.Reading: // bytes may wait for ourselves
	case signs.Unacknowledged && signs.Acknowledged > before.Acknowledged: // it is still on its way
	case received >= slowest && signs.Messages == before.Messages: // a large message arrives, perhaps an answer
	default:
		f.took += step
		f.credit = min(f.credit+received-slowest, looks*slowest)
	}
	return f.credit <= -looks*slowest-int64(waiting.Largest) || f.took >= longestFollowUp || f.ahead >= maxOutputAhead
}
