package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/wire"
)

// Sizes of answers to process/read.
const (
	// firstReadBytes limits the first read of a process after a resume: the rest is
	// pushed, and the reference client cannot take much in one piece.
	firstReadBytes = 64 << 10

	// defaultReadBytes limits a read if the client sets no limit.
	defaultReadBytes = 1 << 20

	// maxReadBytes is the largest limit that a client can set.
	maxReadBytes = 16 << 20

	// maxReadEntries limits every read.
	maxReadEntries = 8192
)

// A Read is one process/read.
type Read struct {
	Process *Process
	After   uint64
	Wait    time.Duration

	attachment *Attachment
	bounded    bool // the client set a limit
	limit      int  // of the bytes of output
}

// A Page describes the process in the answer to a Read.
type Page struct {
	Next     uint64
	Exited   bool
	ExitCode int
	Closed   bool
}

// Read prepares a read of a process.
func (a *Attachment) Read(p *wire.ReadParams) (*Read, error) {
	process, err := a.Session.Find(p.ProcessID)
	if err != nil {
		return nil, err
	}
	r := &Read{Process: process, attachment: a, limit: defaultReadBytes}
	if p.AfterSeq != nil {
		r.After = min(*p.AfterSeq, math.MaxUint64-1) // so that After+1 does not overflow
	}
	if p.WaitMs != nil {
		r.Wait = time.Duration(min(*p.WaitMs, uint64(maxWait.Milliseconds()))) * time.Millisecond
	}
	if p.MaxBytes != nil {
		r.bounded, r.limit = true, int(min(*p.MaxBytes, maxReadBytes))
	}
	r.noteKnown()
	return r, nil
}

// maxWait keeps the wait that a client asks for within the range of a timer.
const maxWait = 365 * 24 * time.Hour

// noteKnown concludes from the position of the read that the client has all events
// before it. If it is the first read of the process after a resume, noteKnown also
// limits it, and postpones pushAll.
func (r *Read) noteKnown() {
	a, p := r.attachment, r.Process
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.After <= p.Log.Stats().Released {
		p.known = max(p.known, r.After)
	}
	if a.resumed && p.pusher != a {
		r.limit = min(r.limit, firstReadBytes)
		if a.quiet != nil && s.holder.attachment == a {
			a.quiet.Reset(resumeQuiet)
		}
	}
}

// MaxBytes is the most output that the answer will contain.
func (r *Read) MaxBytes() int { return max(r.limit, outlog.MaxEntry) }

// Limit limits the answer to n bytes of output, but at least one event.
func (r *Read) Limit(n int) { r.limit = min(r.limit, n) }

// Small reports whether there are at most the given numbers of events and bytes to
// read.
func (r *Read) Small(events uint64, bytes int) bool {
	haveEvents, haveBytes := r.Process.Log.Pending(r.After)
	return haveEvents <= events && haveBytes <= bytes
}

// Ready reports whether the read can be answered now.
func (r *Read) Ready() bool { return r.Wait == 0 || r.Process.Log.Ready(r.After) }

// Await calls answer once: when the read can be answered, when the client's waiting
// time is over, or with an error when ctx ends. If urgent, a small event has just
// arrived, and answer may take a moment to deliver it. If not, locks may be held, and
// answer must return at once.
func (r *Read) Await(ctx context.Context, answer func(urgent bool, err error)) {
	w := &waiter{answer: answer}
	log := r.Process.Log
	w.onEnd(log.OnAppend(func(urgent bool) {
		if log.Ready(r.After) {
			w.end(urgent, nil)
		}
	}))
	unwatch := context.AfterFunc(ctx, func() { w.end(false, context.Cause(ctx)) })
	w.onEnd(func() { unwatch() })
	timer := time.AfterFunc(r.Wait, func() { w.end(false, nil) })
	w.onEnd(func() { timer.Stop() })
	if log.Ready(r.After) { // an event may have arrived before the listener was registered
		w.end(false, nil)
	}
}

// A waiter waits for the first of several events.
type waiter struct {
	answer func(urgent bool, err error)

	mu    sync.Mutex
	ended bool
	stops []func() // each ends the wait for one of the events
}

// onEnd adds a function that is called at the end; if that is over, at once.
func (w *waiter) onEnd(stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.stops = append(w.stops, stop)
		return
	}
	stop()
}

// end ends the wait and answers, if this is the first event.
func (w *waiter) end(urgent bool, err error) {
	w.mu.Lock()
	if w.ended {
		w.mu.Unlock()
		return
	}
	w.ended = true
	stops := w.stops
	w.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	w.answer(urgent, err)
}

// forgotten is the error of a read if the process was forgotten meanwhile.
func (r *Read) forgotten() error { return fmt.Errorf("%w %s", ErrUnknownProcess, r.Process.ID) }

// Collect passes the output to visit and returns the description of the process for
// the answer. If the client set no limit and the answer does not contain all output,
// the process is described as of the end of the answer.
func (r *Read) Collect(visit func(outlog.Entry)) (Page, error) {
	var (
		log    = r.Process.Log
		cursor = log.Cursor(r.After)
		total  int
		taken  int
		last   uint64
		cut    bool
	)
	for !cut {
		err := cursor.Next(func(e outlog.Entry) {
			switch {
			case e.Kind != outlog.Output:
			case taken > 0 && (total+len(e.Data) > r.limit || taken == maxReadEntries):
				cut = true
			default:
				visit(e)
				total += len(e.Data)
				taken++
				last = e.Seq
			}
		})
		switch {
		case errors.Is(err, outlog.ErrEvicted):
			cursor.Seek(log.Stats().First - 1)
		case errors.Is(err, outlog.ErrEnded):
			return Page{}, r.forgotten()
		case errors.Is(err, outlog.ErrNone), errors.Is(err, io.EOF): // there is no entry yet, or no more
			return r.page(cursor.Seq()+1, last, taken), nil
		case err != nil:
			return Page{}, err
		}
	}
	return r.page(cursor.Seq(), last, taken), nil
}

// page describes the process before the event with number next, which is the first
// that was not read. If the client set a limit and got output, page describes the
// process as it is now, but Next follows the last output that the client got.
func (r *Read) page(next, last uint64, taken int) Page {
	state := r.Process.Log.StateAt(max(next, 1))
	if r.bounded && taken > 0 {
		state = r.Process.Log.State()
		state.Next = last + 1
	}
	return Page(state)
}

// BeginPush reports whether this is the first answer about the process since a resume.
// If so, the peer has to queue the answer and push the events after it. If paced, the
// client can take only a limited amount before it has processed the answer. A client
// that acknowledges needs no pacing: it reads again what it could not take.
func (r *Read) BeginPush() (push, paced bool) {
	a := r.attachment
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.resumed && a.claimLocked(r.Process), !s.acks
}
