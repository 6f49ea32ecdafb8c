package outlog

// A delivery records what the client has got. Entries are released when they were sent
// or, for a client that acknowledges, when it has acknowledged them.
type delivery struct {
	acks      bool
	sent      uint64 // the newest number that was sent to a connection
	delivered uint64 // up to this number the client has got all entries
	closed    func() // called once, when the close is delivered; nil after that, or if there is no callback
}

// Sent records that the entries up to seq were sent to a connection.
func (l *Log) Sent(seq uint64) {
	l.after(l.deliver(seq, true))
}

// Ack records that the client has acknowledged the entries up to seq. Without
// Config.Acks it has no effect.
func (l *Log) Ack(seq uint64) {
	l.after(l.deliver(seq, false))
}

// Release allows the entries up to seq to be forgotten, except for the newest
// Retain bytes of them, whether the client has got them or not.
func (l *Log) Release(seq uint64) {
	l.after(l.release(seq), nil)
}

func (l *Log) release(seq uint64) (dropped bool) {
	l.lock()
	defer l.mu.Unlock()
	return l.releaseLocked(seq)
}

// after does what a change of the deliveries calls for, without the lock: it gives back disk
// space of dropped segments, and reports the close.
func (l *Log) after(dropped bool, closed func()) {
	if dropped {
		l.trimSpool(spareBlocks)
	}
	if closed != nil {
		closed()
	}
}

// deliver records that the client has got the entries up to seq, or at least a connection
// has.
func (l *Log) deliver(seq uint64, sent bool) (dropped bool, closed func()) {
	l.lock()
	defer l.mu.Unlock()
	h, d := &l.history, &l.delivery
	seq = min(seq, h.next-1)
	if sent {
		d.sent = seq
		if h.slot != nil {
			h.slot.Sent.Store(seq, pointSent)
		}
	}
	if sent == d.acks {
		return false, nil
	}
	if seq > d.delivered {
		d.delivered = seq
		if h.slot != nil {
			h.slot.Delivered.Store(seq, pointDeliver)
		}
	}
	if h.closeSeq != 0 && h.closeSeq <= seq {
		closed, d.closed = d.closed, nil
	}
	return l.releaseLocked(seq), closed
}

// releaseLocked reports whether segments were dropped.
func (l *Log) releaseLocked(seq uint64) (dropped bool) {
	if l.ended || !l.history.release(min(seq, l.history.next-1)) {
		return false
	}
	for l.history.surplus(l.retain) {
		l.dropLocked()
		dropped = true
	}
	l.offerLocked()
	l.room.open()
	return dropped
}
