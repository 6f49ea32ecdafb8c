package client

import "time"

// backpressureLimit is how long a connection waits for a subscription that is behind.
const backpressureLimit = 250 * time.Millisecond

// backpressure waits for subscriptions if so many more bytes would push events out of the
// log that they still have to read: they would have to fetch these from the server again.
// The connection's reader calls it, so the network and the server wait too, as with a pipe.
// The wait is short. A subscription that does not read meanwhile is marked as idle, and is
// not waited for again until it has caught up. The caller has p.mu, which is released during
// the wait.
func (p *Process) backpressure(more int) {
	late, first := p.logRoom(), p.awaited()
	if !p.log.full(first, more, late) {
		return
	}
	limit := time.NewTimer(backpressureLimit)
	defer limit.Stop()
	for ; p.log.full(first, more, late); first = p.awaited() {
		room := make(chan struct{})
		p.readers.room = room
		p.mu.Unlock()
		over := false
		select {
		case <-room:
		case <-limit.C:
			over = true
		case <-p.client.ctx.Done():
			over = true
		}
		p.mu.Lock()
		if over {
			p.readers.room = nil
			for s := range p.readers.open {
				s.idle = s.idle || s.next <= first
			}
			return
		}
	}
}

// awaited is the first event that a subscription which is not idle still has to deliver.
// The caller has p.mu.
func (p *Process) awaited() uint64 {
	first := p.seq.last + 1
	for s := range p.readers.open {
		if !s.idle {
			first = min(first, s.next)
		}
	}
	return first
}

// release ends a wait of backpressure if there is room again, or if now is true. The caller
// has p.mu.
func (p *Process) release(now bool) {
	if p.readers.room == nil {
		return
	}
	late := p.logRoom()
	if now || !p.log.full(p.awaited(), late.bytes/2, late) {
		close(p.readers.room)
		p.readers.room = nil
	}
}
