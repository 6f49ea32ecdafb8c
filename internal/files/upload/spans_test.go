package upload

import (
	"slices"
	"testing"
)

// FuzzSpans compares the list with a bitmap: it covers exactly the added parts,
// in order, with gaps between.
func FuzzSpans(f *testing.F) {
	f.Add([]byte{0, 4, 4, 4, 8, 1})
	f.Add([]byte{10, 2, 14, 2, 12, 2, 0, 30})
	f.Add([]byte{5, 1, 3, 1, 1, 1, 0, 7})
	f.Fuzz(func(t *testing.T, input []byte) {
		var have spans
		var bitmap [512]bool
		for ; len(input) >= 2; input = input[2:] {
			start, n := uint64(input[0]), uint64(input[1])
			if n == 0 {
				continue
			}
			before := slices.Clone(have)
			next := have.with(start, start+n)
			if !slices.Equal(have, before) {
				t.Fatalf("adding %d+%d changed %v to %v", start, n, before, have)
			}
			have = next
			for i := start; i < start+n; i++ {
				bitmap[i] = true
			}
			checkSpans(t, have, bitmap[:])
		}
	})
}

func checkSpans(t *testing.T, have spans, bitmap []bool) {
	t.Helper()
	var total, prefix uint64
	naive := make([]bool, len(bitmap))
	for i, r := range have {
		if r.Start >= r.End || i > 0 && r.Start <= have[i-1].End {
			t.Fatalf("part %d of %v is empty, out of order or touches the one before", i, have)
		}
		for b := r.Start; b < r.End; b++ {
			naive[b] = true
		}
	}
	if !slices.Equal(naive, bitmap) {
		t.Fatalf("%v is not what was added", have)
	}
	for i, is := range bitmap {
		if is {
			total++
		}
		if is && prefix == uint64(i) {
			prefix++
		}
	}
	if have.total() != total || have.prefix() != prefix {
		t.Fatalf("%v: total %d, prefix %d; want %d and %d", have, have.total(), have.prefix(), total, prefix)
	}
}
