package outlog

import "errors"

// fillLeast is the least room that a Fill is content with: it does not know how much output
// there is. A segment or a log with less room left counts as full.
const fillLeast = 4 << 10

// A Between is the pipe through which a log gets the output of a terminal: the kernel moves
// bytes to memory from pipes only. Both ends do not block. One goroutine at a time uses
// it.
type Between struct {
	Read, Write int // descriptors

	held int // bytes in the pipe; unknown: not known
}

const unknown = -1

// NewBetween returns the Between of a pipe, which may have output in it.
func NewBetween(read, write int) *Between { return &Between{Read: read, Write: write, held: unknown} }

// Fills reports whether the log takes output by Fill: if it is in an arena. Append works
// for every log, but output that was read and not yet appended is lost with the process.
func (l *Log) Fills() bool { return l.fills }

// errEnough means that a Fill has got output and would have to wait for room.
var errEnough = errors.New("log is full")

// Fill takes output from a pipe, or with between from a terminal, and records it: as much
// as can be read now, up to MaxEntry. It returns nil if there may be more to read, io.EOF
// at the end of the output, an error of the system (EAGAIN: none for now; EIO: the
// terminal has hung up), or an error of the log. Like Append, it waits while the log is
// full; the output stays in the pipe meanwhile.
func (l *Log) Fill(s Stream, fd int, between *Between) (n int, err error) {
	n, listeners, err := l.fill(s, fd, between)
	if n > 0 {
		announce(listeners, n <= urgentSize)
	}
	return n, err
}

func (l *Log) fill(s Stream, fd int, between *Between) (n int, listeners []*listener, err error) {
	l.lock()
	defer l.mu.Unlock()
	d := demand{stream: s, least: fillLeast, idle: func() error {
		if n > 0 {
			return errEnough
		}
		return awaitable(fd, between)
	}}
	for n < MaxEntry {
		moved, err := l.fillLocked(d, fd, between, MaxEntry-n)
		n, d.begun = n+moved, true
		switch {
		case errors.Is(err, errEnough), n > 0 && noMemory(err):
			return n, l.listeners, nil
		case noMemory(err):
			l.awaitMemoryLocked()
		case err != nil:
			return n, l.listeners, err
		}
	}
	return n, l.listeners, nil
}

// fillLocked takes up to most bytes from a source.
func (l *Log) fillLocked(d demand, fd int, between *Between, most int) (int, error) {
	h := &l.history
	if h.lacksBlock() { // a process that prints nothing gets no block
		if err := awaitable(fd, between); err != nil {
			return 0, err
		}
	}
	d.least, d.most = min(d.least, most), most
	if left := h.left(); between == nil && left >= d.least && left < most {
		d.least = min(max(d.least, available(fd)), most) // rather a whole entry in the next segment than a short one in this
	}
	room, now, err := l.admitLocked(d)
	if err != nil {
		return 0, err
	}
	n, err := l.takeUnlocked(fd, between, room)
	h.settle(now)
	return n, err
}

// takeUnlocked moves up to most bytes behind the last record. It releases the lock
// meanwhile, so that readers need not wait for the copying. They find the new bytes when the
// caller has made an entry of them.
func (l *Log) takeUnlocked(fd int, between *Between, most int) (int, error) {
	slot, c := l.history.slot, l.history.tail().content
	c.readers++ // if the log ends, the block is not used again yet
	l.taking = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.taking = false
		l.taken.Broadcast()
		c.unpin()
	}()
	return take(slot, fd, between, most)
}

// awaitTakenLocked waits until no Fill moves bytes. That takes as long as copying them.
func (l *Log) awaitTakenLocked() {
	if !l.taking {
		return
	}
	for l.taking {
		l.taken.Wait()
	}
	l.repairLocked()
}

// lacksBlock reports whether the next output needs a new block.
func (h *history) lacksBlock() bool {
	tail := h.tail()
	return tail == nil || !tail.content.hasData() || h.left() < fillLeast
}

// left is how many bytes a new entry may have in the last segment.
func (h *history) left() int {
	tail := h.tail()
	if tail == nil {
		return 0
	}
	return segmentCost - int(tail.cost) - EntryOverhead
}
