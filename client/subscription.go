package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/tetherexec/tether/internal/wake"
	"github.com/tetherexec/tether/wire"
)

// fetchBytes is how much a subscription that is behind fetches at once.
const fetchBytes = 1 << 20

// ackEvery and ackBytes are after how many events, or how many bytes of output, the client
// acknowledges.
const (
	ackEvery = 32
	ackBytes = 256 << 10
)

// A Subscription delivers the events of a process in order, each once. If it falls behind,
// it fetches the events that it missed from the server; events that the server does not
// have any more are a Gap. A Subscription is for one goroutine, except Close.
//
// On servers with acknowledgements, output that a subscription has not delivered is
// kept, and the command blocks on its output when there is too much of it. A server
// without them has only the newest 1 MiB, so the client keeps what a subscription has
// still to deliver, up to 64 MiB of a process and 256 MiB in all; more is lost.
type Subscription struct {
	process *Process
	wake    wake.Signal     // there is another event, or the end
	next    uint64          // the event to deliver next; guarded by process.mu
	fetched []Event         // from the server, because the log had dropped them
	idle    bool            // it does not read, so backpressure does not wait for it; guarded by process.mu
	over    bool            // its end was delivered; guarded by process.mu
	uses    atomic.Uint64   // grows while it is read
	copying atomic.Bool     // a WriteTo is under way
	ctx     context.Context // ends with Close
	close   context.CancelFunc
}

// Subscribe delivers the events of the process from the first one on.
func (p *Process) Subscribe() *Subscription { return p.SubscribeAfter(0) }

// SubscribeAfter delivers the events after a number.
func (p *Process) SubscribeAfter(seq uint64) *Subscription {
	s := &Subscription{process: p, wake: wake.New(), next: seq + 1}
	s.ctx, s.close = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers.open[s] = struct{}{}
	p.readers.subscribed, p.readers.discard = true, false
	return s
}

// Close ends the subscription. Events that it has not delivered are given up, and a
// Next that waits returns ErrSubscriptionClosed, as each later one does. Any goroutine
// may call it.
func (s *Subscription) Close() {
	p := s.process
	p.mu.Lock()
	s.close()
	delete(p.readers.open, s)
	p.trimLog()
	p.readerOver()
	s.wake.Send()
	p.release(true)
	ack := p.ackDue(true)
	p.mu.Unlock()
	p.sendAck(ack)
}

// Next returns the next event. After Closed it returns io.EOF; if the process is
// lost, the reason.
func (s *Subscription) Next(ctx context.Context) (Event, error) {
	p := s.process
	s.uses.Add(1)
	for {
		p.mu.Lock()
		e, found, behind, err := s.take()
		if err != nil || found && e.Kind == Closed {
			s.over = true
			p.readerOver()
		}
		ack := uint64(0)
		if found {
			s.next = e.Seq + 1
			p.acks.bytes += len(e.Data)
			p.release(s.next > p.seq.last)
			if p.log.bytes > logBytes {
				p.trimLog()
			}
			ack = p.ackDue(e.Kind == Closed)
		}
		p.mu.Unlock()
		p.sendAck(ack)
		switch {
		case found:
			return e, nil
		case err != nil:
			return Event{}, err
		case behind > 0:
			if err := s.fetch(ctx, behind); err != nil && s.ctx.Err() == nil {
				return Event{}, err
			}
			continue
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		}
	}
}

// take looks for the next event. behind is the first number that the log has, if the
// next event is before that. The caller has process.mu.
func (s *Subscription) take() (e Event, found bool, behind uint64, err error) {
	p := s.process
	switch {
	case s.ctx.Err() != nil:
		return Event{}, false, 0, ErrSubscriptionClosed
	case len(s.fetched) > 0:
		e, s.fetched = s.fetched[0], s.fetched[1:]
		return e, true, 0, nil
	case s.next < p.log.start:
		return Event{}, false, p.log.start, nil
	}
	if e, ok := p.log.from(s.next); ok {
		s.idle = s.idle && e.Seq < p.seq.last
		return e, true, 0, nil
	}
	switch {
	case p.end.failure != nil:
		return Event{}, false, 0, p.end.failure
	case p.seq.closed:
		return Event{}, false, 0, io.EOF
	}
	return Event{}, false, 0, nil
}

// fetch gets events before end from the server.
func (s *Subscription) fetch(ctx context.Context, end uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	r, err := s.process.Read(ctx, ReadOptions{AfterSeq: s.next - 1, MaxBytes: fetchBytes})
	if err != nil {
		if !errors.Is(err, ErrUnknownProcess) {
			return err
		}
		r = new(wire.ReadResult) // the server has removed the process: all is a Gap
	}
	exit := s.process.knownExit()
	next := s.next
	for _, c := range r.Chunks {
		if c.Seq >= end {
			break
		}
		if c.Seq < next {
			continue
		}
		s.fill(next, c.Seq, exit)
		s.fetched = append(s.fetched, Event{Kind: Output, Seq: c.Seq, Stream: c.Stream, Data: c.Chunk})
		next = c.Seq + 1
	}
	if len(s.fetched) == 0 {
		s.fill(next, end, exit)
	}
	return nil
}

// fill adds the events between two numbers that are not output: the exit, or a Gap.
func (s *Subscription) fill(from, end uint64, exit Event) {
	gap := func(from, end uint64) {
		if from < end {
			s.fetched = append(s.fetched, Event{Kind: Gap, First: from, Seq: end - 1})
		}
	}
	if exit.Kind != 0 && from <= exit.Seq && exit.Seq < end {
		gap(from, exit.Seq)
		s.fetched = append(s.fetched, exit)
		from = exit.Seq + 1
	}
	gap(from, end)
}

func (p *Process) knownExit() Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end.exit
}

// ackDue returns the number to acknowledge; 0: none. Unless it is urgent, several
// events are acknowledged together. The caller has p.mu.
func (p *Process) ackDue(urgent bool) uint64 {
	if !p.readers.subscribed && !p.readers.discard {
		return 0
	}
	delivered := p.needed() - 1
	final := p.seq.closed && delivered == p.seq.last
	if delivered <= p.acks.seq || !urgent && !final && delivered < p.acks.seq+ackEvery && p.acks.bytes < ackBytes {
		return 0
	}
	p.acks.seq, p.acks.bytes = delivered, 0
	return delivered
}

// ackAgain repeats the last acknowledgement on a new connection.
func (p *Process) ackAgain() {
	p.mu.Lock()
	p.acks.seq = 0
	ack := p.ackDue(true)
	p.mu.Unlock()
	p.sendAck(ack)
}

// sendAck acknowledges all events up to seq. It does not wait. An acknowledgement that is
// lost with the connection is sent again on the next one, see [Client.install]: without it
// the server would keep a closed process for ever, and block a running one.
func (p *Process) sendAck(seq uint64) {
	c := p.client
	if seq == 0 || !c.session.acknowledges {
		return
	}
	ack := wire.AckParams{ProcessID: p.id, Seq: seq}
	p.mu.Lock()
	final := p.seq.closed && seq == p.seq.last
	p.mu.Unlock()
	if final { // before it is sent, so that a connection that is made now sends it again
		c.processes.addFinal(ack)
	}
	if status, l := c.state.now(); status.State == Connected {
		l.acknowledge(ack)
	}
}

// acknowledgements are the acknowledgements of one connection that its writer has not taken
// yet: only the newest of each process, so that a server that does not read costs no memory.
type acknowledgements struct {
	sync.Mutex
	newest map[string]uint64 // by process; one acknowledgement of each is in the writer's queue
}

// acknowledge sends an acknowledgement without waiting, after earlier messages.
func (l *Link) acknowledge(a wire.AckParams) {
	l.acks.Lock()
	newest, queued := l.acks.newest[a.ProcessID]
	l.acks.newest[a.ProcessID] = max(newest, a.Seq)
	l.acks.Unlock()
	if !queued {
		l.sendNewest(a)
	}
}

func (l *Link) sendNewest(a wire.AckParams) {
	l.conn.NotifyNow(wire.MethodAck, a, func() {
		l.acks.Lock()
		newest := l.acks.newest[a.ProcessID]
		if newest <= a.Seq {
			delete(l.acks.newest, a.ProcessID)
		}
		l.acks.Unlock()
		if newest > a.Seq {
			l.sendNewest(wire.AckParams{ProcessID: a.ProcessID, Seq: newest})
		}
	})
}

// A GapError is the error of readers of plain bytes when bytes are missing. It is an ErrGap.
type GapError struct{ First, Last uint64 }

func (e *GapError) Error() string {
	return fmt.Sprintf("output was lost: events %d to %d are no longer retained", e.First, e.Last)
}
func (e *GapError) Is(target error) bool { return target == ErrGap }
