package client

import "time"

// backpressureLimit is how long a connection waits for a subscription that is behind.
const backpressureLimit = 250 * time.Millisecond

// backpressure waits for subscriptions that would lose events of the log and had to fetch them
// again: the network waits with it, and the server, as with a pipe. It is called by the
// connection's reader before it adds so many bytes, so it does not wait for long: a
// subscription that does not read is not waited for again until it has caught up. The
// caller has p.mu, which is given up meanwhile.
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

// awaited is the first event that a subscription which is waited for has still to
// deliver. The caller has p.mu.
func (p *Process) awaited() uint64 {
	first := p.seq.last + 1
	for s := range p.readers.open {
		if !s.idle {
			first = min(first, s.next)
		}
	}
	return first
}

// release lets the connection go on when there is room again, or nothing to wait for. The
// caller has p.mu.
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
