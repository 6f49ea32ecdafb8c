package outlog

// A delivery records what the client has got. Entries are released when they were sent
// or, for a client that acknowledges, when it has acknowledged them.
type delivery struct {
	acks   bool
	sent   uint64 // the newest number that was sent to a connection
	closed func() // called once, when the close is delivered; nil after that, or if there is no callback
}

// Sent records that the entries up to seq were sent to a connection.
func (l *Log) Sent(seq uint64) {
	l.mu.Lock()
	l.delivery.sent = min(seq, l.history.next-1)
	if l.delivery.acks {
		l.mu.Unlock()
		return
	}
	l.deliveredAndUnlock(seq)
}

// Ack records that the client has acknowledged the entries up to seq. Without
// Config.Acks it has no effect.
func (l *Log) Ack(seq uint64) {
	l.mu.Lock()
	if !l.delivery.acks {
		l.mu.Unlock()
		return
	}
	l.deliveredAndUnlock(seq)
}

// deliveredAndUnlock releases the entries up to seq, and reports the close.
func (l *Log) deliveredAndUnlock(seq uint64) {
	var closed func()
	if h := &l.history; h.closeSeq != 0 && h.closeSeq <= seq {
		closed, l.delivery.closed = l.delivery.closed, nil
	}
	l.releaseAndUnlock(seq)
	if closed != nil {
		closed()
	}
}

// Release allows the entries up to seq to be forgotten, except for the newest
// Retain bytes of them, whether the client has got them or not.
func (l *Log) Release(seq uint64) {
	l.mu.Lock()
	l.releaseAndUnlock(seq)
}

func (l *Log) releaseAndUnlock(seq uint64) {
	dropped := false
	if !l.ended && l.history.release(min(seq, l.history.next-1)) {
		for l.history.surplus(l.retain) {
			l.dropLocked()
			dropped = true
		}
		l.offerLocked()
		l.room.open()
	}
	l.mu.Unlock()
	if dropped {
		l.trimSpool()
	}
}
