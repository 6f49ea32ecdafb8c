package unifiedexec

import (
	"fmt"
	"slices"
)

// bufferLimit is how many bytes of the output between two results are kept: the first half and
// the last half. A model reads far less, and a person wants the beginning and the end of a long
// output.
const bufferLimit = 1 << 20

// A headTail keeps the beginning and the end of the bytes that are appended to it, and counts
// the bytes between.
type headTail struct {
	head []byte
	tail []byte // a ring once it is full
	at   int    // where the ring begins
	lost int64  // bytes between head and tail
}

const half = bufferLimit / 2

// add appends bytes. The result does not depend on how they are divided into calls.
func (b *headTail) add(data []byte) {
	if room := half - len(b.head); room > 0 {
		n := min(room, len(data))
		b.head = append(b.head, data[:n]...)
		data = data[n:]
	}
	if over := len(data) - half; over > 0 { // the data replaces the whole tail
		b.lost += int64(len(b.tail) + over)
		b.tail, b.at, data = b.tail[:0], 0, data[over:]
	}
	if room := half - len(b.tail); room > 0 {
		n := min(room, len(data))
		b.tail = append(b.tail, data[:n]...)
		data = data[n:]
	}
	b.lost += int64(len(data))
	for len(data) > 0 { // around the ring
		n := copy(b.tail[b.at:], data)
		b.at = (b.at + n) % half
		data = data[n:]
	}
}

// cutUnfinished removes and returns an incomplete character at the end.
func (b *headTail) cutUnfinished() []byte {
	if b.at > 0 {
		b.tail, b.at = append(slices.Clone(b.tail[b.at:]), b.tail[:b.at]...), 0
	}
	last := &b.tail
	if len(b.tail) == 0 {
		last = &b.head
	}
	whole := len(*last) - unfinished(*last)
	rest := (*last)[whole:]
	*last = (*last)[:whole:whole]
	return rest
}

// total is how many bytes were appended.
func (b *headTail) total() int64 { return int64(len(b.head)+len(b.tail)) + b.lost }

// omission is the text that replaces the bytes between; empty: there are none.
func (b *headTail) omission() string {
	if b.lost == 0 {
		return ""
	}
	return fmt.Sprintf("... %d bytes omitted ...", b.lost)
}

// bytes returns the bytes that were kept, with the omission between them.
func (b *headTail) bytes() []byte {
	out := make([]byte, 0, len(b.head)+len(b.tail)+64)
	out = append(out, b.head...)
	if mark := b.omission(); mark != "" {
		out = append(append(append(out, '\n'), mark...), '\n')
	}
	out = append(out, b.tail[b.at:]...)
	return append(out, b.tail[:b.at]...)
}
