package rpc

import "sync"

const (
	// batchSize is how many bytes are collected for one write. The buffer is only
	// held while there is something to write.
	batchSize = 256 << 10

	// largeMessage is the size above which a message is written from where it
	// is instead of being copied into a batch.
	largeMessage = 64 << 10
)

// A Batch collects framed messages for one write.
type Batch struct {
	stream     Stream
	buf        []byte
	mark, size int
	feeds      []*Feed    // sources of messages in it
	outgoing   []outgoing // its other messages
	large      []byte     // the last message, if it is written on its own after buf
	pieces     Pieces     // the same, if it is made while it is written
	last       bool       // the last batch of the connection
}

// requests is how many requests the batch answers.
func (b *Batch) requests() (n int) {
	for _, m := range b.outgoing {
		if m.claim.request {
			n++
		}
	}
	return n
}

// Open begins a message of about size bytes and of at most maxFrame. The caller
// appends the message to the returned buffer and passes that to Seal.
func (b *Batch) Open(size int) []byte {
	b.mark, b.size = len(b.buf), size
	return b.stream.Open(b.buf, size)
}

// Seal completes the message that was begun with Open.
func (b *Batch) Seal(buf []byte) { b.buf = b.stream.Seal(buf, b.mark, b.size) }

// Whole adds a message of any size. A large message is not copied; writing it may
// change msg.
func (b *Batch) Whole(msg []byte) {
	if len(msg) > largeMessage {
		b.large = msg // ends the batch
		return
	}
	b.Seal(append(b.Open(len(msg)), msg...))
}

// InPieces adds a message that is made while it is written. It ends the batch.
func (b *Batch) InPieces(pieces Pieces) { b.pieces = pieces }

// whole reports whether the batch ends with a message that is written on its own.
func (b *Batch) whole() bool { return b.large != nil || b.pieces != nil }

var batches = sync.Pool{New: func() any { return &Batch{buf: make([]byte, 0, batchSize)} }}

// maxBatchMemory is the largest buffer that goes back to the pool.
const maxBatchMemory = 2 * batchSize

func newBatch(stream Stream) *Batch {
	b := batches.Get().(*Batch)
	b.stream = stream
	return b
}

// recycle makes the batch empty, and gives its memory to the next one.
func (b *Batch) recycle() {
	clear(b.outgoing)
	clear(b.feeds)
	*b = Batch{outgoing: b.outgoing[:0], feeds: b.feeds[:0], buf: b.buf[:0]}
	if cap(b.buf) <= maxBatchMemory {
		batches.Put(b)
	}
}
