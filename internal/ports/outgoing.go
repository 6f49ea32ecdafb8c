package ports

// The sizes of the blocks into which a socket is read: an idle connection has a small one.
const (
	minBlock = 4 << 10
	maxBlock = 64 << 10
)

// An outgoing has the bytes of a socket for the other end that are not acknowledged. All but the last of its blocks are full.
type outgoing struct {
	blocks [][]byte
	base   uint64 // offset of the first byte of the blocks
	acked  uint64 // the other end has handed on the bytes before it
	sent   uint64 // offset of the next byte to send
	end    uint64 // offset behind the last byte that was read
	limit  uint64 // the other end takes the bytes before it

	ended   bool // the socket has ended
	toldEnd bool // the other end was sent that
}

// room is how many bytes may be read, if at most window may be unacknowledged.
func (o *outgoing) room(window uint64) int { return int(window - (o.end - o.acked)) }

// space returns memory for the next read, of size bytes if a new block is needed.
func (o *outgoing) space(size int) []byte {
	if n := len(o.blocks); n > 0 && len(o.blocks[n-1]) < cap(o.blocks[n-1]) {
		last := o.blocks[n-1]
		return last[len(last):cap(last)]
	}
	o.blocks = append(o.blocks, make([]byte, 0, size))
	return o.blocks[len(o.blocks)-1][:size]
}

// grow adds n bytes that were read into the memory of space.
func (o *outgoing) grow(n int) {
	last := &o.blocks[len(o.blocks)-1]
	*last = (*last)[:len(*last)+n]
	o.end += uint64(n)
}

// next returns bytes to send; empty: there are none, or the other end does not take them yet.
func (o *outgoing) next() []byte {
	skip := o.sent - o.base
	for _, b := range o.blocks {
		if skip < uint64(len(b)) {
			n := min(uint64(len(b))-skip, o.limit-min(o.limit, o.sent))
			return b[skip : skip+n]
		}
		skip -= uint64(len(b))
	}
	return nil
}

// ack notes what the other end has handed on, and frees it. It reports false if that was never sent.
func (o *outgoing) ack(offset, limit uint64) bool {
	if offset > o.sent {
		return false
	}
	o.acked, o.limit = max(o.acked, offset), max(o.limit, limit)
	for len(o.blocks) > 0 {
		first := o.blocks[0]
		isTail := len(o.blocks) == 1 && len(first) < cap(first) // the socket is being read into it
		if isTail || o.base+uint64(len(first)) > o.acked {
			break
		}
		o.base += uint64(len(first))
		o.blocks[0] = nil
		o.blocks = o.blocks[1:]
	}
	return true
}

// continueAt goes back to the first byte that the other end does not have. It reports false if that byte is gone, or was never there.
func (o *outgoing) continueAt(received, limit uint64) bool {
	if received < o.acked || received > o.end {
		return false
	}
	o.sent, o.limit, o.toldEnd = received, max(o.limit, limit), false
	return true
}

// delivered reports whether the other end has handed on everything.
func (o *outgoing) delivered() bool { return o.ended && o.acked == o.end }
