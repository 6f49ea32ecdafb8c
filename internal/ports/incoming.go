package ports

import (
	"fmt"

	"github.com/tetherexec/tether/wire"
)

// An incoming has the bytes of the other end that were not handed to the socket yet.
type incoming struct {
	chunks   [][]byte
	received uint64 // offset behind the last byte that has arrived
	written  uint64 // offset behind the last byte that the socket has taken
	acked    uint64 // the last offset that the other end was told
	force    bool   // it is told again
	window   uint64 // bytes that may be received and not written
	ended    bool   // nothing follows
}

// mergeBelow is the size below which chunks share memory.
const mergeBelow = minBlock

// take adds bytes that start at an offset, without those that have arrived before. The chunk belongs to the caller if it is small.
func (in *incoming) take(offset uint64, chunk []byte, end bool) error {
	if offset > in.received {
		return fmt.Errorf("bytes from %d to %d are missing", in.received, offset)
	}
	chunk = chunk[min(in.received-offset, uint64(len(chunk))):]
	switch {
	case len(chunk) > 0 && in.ended:
		return fmt.Errorf("bytes behind the end at %d", in.received)
	case in.received+uint64(len(chunk)) > in.limit():
		return fmt.Errorf("bytes up to %d are more than the limit of %d", in.received+uint64(len(chunk)), in.limit())
	}
	in.received += uint64(len(chunk))
	in.ended = in.ended || end
	if n := len(in.chunks); len(chunk) < mergeBelow && n > 0 && len(chunk) <= cap(in.chunks[n-1])-len(in.chunks[n-1]) {
		in.chunks[n-1] = append(in.chunks[n-1], chunk...)
		return nil
	}
	switch {
	case len(chunk) == 0:
	case len(chunk) < mergeBelow:
		in.chunks = append(in.chunks, append(make([]byte, 0, max(len(chunk), min(mergeBelow, 4*len(chunk)+64))), chunk...))
	default:
		in.chunks = append(in.chunks, chunk[:len(chunk):len(chunk)])
	}
	return nil
}

// limit is the offset before which bytes are taken.
func (in *incoming) limit() uint64 { return in.written + in.window }

// ackDue reports whether the other end is to be told what was handed on.
func (in *incoming) ackDue() bool {
	fresh := in.written - in.acked
	return in.force || fresh >= wire.PortAckEvery || in.ended && fresh > 0 && in.written == in.received
}
