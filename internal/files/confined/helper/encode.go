package helper

import "encoding/binary"

// encoder and decoder write numbers as varints, and texts behind their lengths.
type encoder []byte

func (e *encoder) number(n uint64) { *e = binary.AppendUvarint(*e, n) }
func (e *encoder) signed(n int64)  { *e = binary.AppendVarint(*e, n) }

func (e *encoder) flag(f bool) {
	if f {
		*e = append(*e, 1)
	} else {
		*e = append(*e, 0)
	}
}

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	*e = append(*e, s...)
}

type decoder struct {
	rest   []byte
	broken bool
}

func (d *decoder) fail() { d.broken, d.rest = true, nil }

func (d *decoder) number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) signed() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count is a number of things of which each takes at least one byte.
func (d *decoder) count() int {
	n := d.number()
	if n > uint64(len(d.rest)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) flag() bool {
	if len(d.rest) == 0 || d.rest[0] > 1 {
		d.fail()
		return false
	}
	f := d.rest[0] == 1
	d.rest = d.rest[1:]
	return f
}

func (d *decoder) bytes() []byte {
	n := d.count()
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) text() string { return string(d.bytes()) }

// done reports whether all was there and nothing is left.
func (d *decoder) done() bool { return !d.broken && len(d.rest) == 0 }
