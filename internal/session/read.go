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
	// firstReadBytes bounds the first read of a process after a resume: the rest
	// is pushed, and the reference client cannot take much in one piece.
	firstReadBytes = 64 << 10

	// unboundedReadBytes bounds a read that names no limit.
	unboundedReadBytes = 1 << 20

	// maxReadBytes bounds a read that names a larger limit.
	maxReadBytes = 16 << 20

	// maxReadEntries bounds every read.
	maxReadEntries = 8192
)

// A Read is one process/read.
type Read struct {
	Process *Process
	After   uint64
	Wait    time.Duration

	attachment *Attachment
	bounded    bool // the client named a limit
	limit      int
}

// A Page is what a Read has found.
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
	r := &Read{Process: process, attachment: a, limit: unboundedReadBytes}
	if p.AfterSeq != nil {
		r.After = min(*p.AfterSeq, math.MaxUint64-1) // there is always a number behind it
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

// maxWait keeps a wish to wait for ever within what a timer can count.
const maxWait = 365 * 24 * time.Hour

// noteKnown takes the cursor of the client as its word that it has everything
// before, and bounds the first read after a resume.
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

// MaxBytes is the most output that the answer will hold.
func (r *Read) MaxBytes() int { return max(r.limit, outlog.MaxEntry) }

// Limit makes the answer hold at most n bytes of output, but one event at least.
func (r *Read) Limit(n int) { r.limit = min(r.limit, n) }

// Small reports whether there are no more than the given number of events and
// bytes to look at.
func (r *Read) Small(events uint64, bytes int) bool {
	haveEvents, haveBytes := r.Process.Log.Pending(r.After)
	return haveEvents <= events && haveBytes <= bytes
}

// Ready reports whether there is something to answer with.
func (r *Read) Ready() bool { return r.Wait == 0 || r.Process.Log.Ready(r.After) }

// Await calls answer once: when there is something to answer with, when the
// client's patience is over, or with an error when ctx is. hot says that this is
// the moment of a small event and that answer may take a moment to deliver it;
// otherwise locks may be held, and answer must return at once.
func (r *Read) Await(ctx context.Context, answer func(hot bool, err error)) {
	w := &waiter{answer: answer}
	log := r.Process.Log
	w.also(log.OnAppend(func(urgent bool) {
		if log.Ready(r.After) {
			w.end(urgent, nil)
		}
	}))
	detached := context.AfterFunc(ctx, func() { w.end(false, context.Cause(ctx)) })
	w.also(func() { detached() })
	patience := time.AfterFunc(r.Wait, func() { w.end(false, nil) })
	w.also(func() { patience.Stop() })
	if log.Ready(r.After) { // since before it was followed
		w.end(false, nil)
	}
}

// A waiter waits for the first of several events.
type waiter struct {
	answer func(hot bool, err error)

	mu    sync.Mutex
	ended bool
	stops []func() // what ends the waiting for the others
}

// also adds what is to be called at the end.
func (w *waiter) also(stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.stops = append(w.stops, stop)
		return
	}
	stop()
}

func (w *waiter) end(hot bool, err error) {
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
	w.answer(hot, err)
}

// forgotten is the answer to a read of a process that is gone meanwhile.
func (r *Read) forgotten() error { return fmt.Errorf("%w %s", ErrUnknownProcess, r.Process.ID) }

// Collect shows the output to visit and returns what the answer says about the
// process. An answer that leaves something out describes the process as it was
// at its end.
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
		case errors.Is(err, outlog.ErrNone), errors.Is(err, io.EOF): // the end, for now or for ever
			return r.page(cursor.Seq()+1, last, taken), nil
		case err != nil:
			return Page{}, err
		}
	}
	return r.page(cursor.Seq(), last, taken), nil
}

// page describes the process before the event with number next, the first that
// was not looked at.
func (r *Read) page(next, last uint64, taken int) Page {
	state := r.Process.Log.StateAt(max(next, 1))
	if r.bounded && taken > 0 {
		state = r.Process.Log.State()
		state.Next = last + 1
	}
	return Page(state)
}

// BeginPush reports whether this is the first answer about the process since a resume.
// Then the peer is to queue the answer, and to push the events behind it. Paced: the
// client cannot take much before it has processed the answer. A client that acknowledges
// can: it asks for what it could not take.
func (r *Read) BeginPush() (push, paced bool) {
	a := r.attachment
	s := a.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.resumed && a.claimLocked(r.Process), !s.acks
}
