package upload

import (
	"slices"

	"github.com/tetherexec/tether/wire"
)

// MaxSpans bounds the list of received parts: a client that sends every second
// byte must not make it grow without limit.
const MaxSpans = 1024

// spans are the received parts of a file: in order, none empty, with a gap
// between any two.
type spans []wire.UploadRange

// with returns s with the part from start to end, which is not empty. It does not
// change s.
func (s spans) with(start, end uint64) spans {
	// s[first:after] are the parts that touch the new part.
	first, _ := slices.BinarySearchFunc(s, start, func(r wire.UploadRange, at uint64) int {
		if r.End < at {
			return -1
		}
		return 1
	})
	after := first
	for after < len(s) && s[after].Start <= end {
		start = min(start, s[after].Start)
		end = max(end, s[after].End)
		after++
	}
	if after == first+1 && s[first] == (wire.UploadRange{Start: start, End: end}) {
		return s
	}
	joined := make(spans, 0, len(s)+1-(after-first))
	joined = append(joined, s[:first]...)
	joined = append(joined, wire.UploadRange{Start: start, End: end})
	return append(joined, s[after:]...)
}

// prefix returns how many bytes are there from the start without a gap.
func (s spans) prefix() uint64 {
	if len(s) == 0 || s[0].Start > 0 {
		return 0
	}
	return s[0].End
}

// total returns how many bytes are there.
func (s spans) total() (n uint64) {
	for _, r := range s {
		n += r.End - r.Start
	}
	return n
}
