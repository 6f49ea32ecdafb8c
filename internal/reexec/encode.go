package reexec

import "encoding/binary"

// An Encoder writes messages between this program and a helper: numbers as varints, texts and lists after
// their lengths.
type Encoder []byte

// Number appends a number.
func (e *Encoder) Number(n uint64) { *e = binary.AppendUvarint(*e, n) }

// Signed appends a number that may be negative.
func (e *Encoder) Signed(n int64) { *e = binary.AppendVarint(*e, n) }

// Flag appends a truth value.
func (e *Encoder) Flag(f bool) {
	if f {
		*e = append(*e, 1)
	} else {
		*e = append(*e, 0)
	}
}

// Text appends a text.
func (e *Encoder) Text(s string) {
	e.Number(uint64(len(s)))
	*e = append(*e, s...)
}

// List appends texts.
func (e *Encoder) List(l []string) {
	e.Number(uint64(len(l)))
	for _, s := range l {
		e.Text(s)
	}
}

// A Decoder reads what an Encoder has written, in the same order. After an error it returns only zero
// values; Done reports the error at the end.
type Decoder struct {
	rest   []byte
	broken bool
}

// Decode returns a decoder of b.
func Decode(b []byte) *Decoder { return &Decoder{rest: b} }

// Fail marks the message as invalid.
func (d *Decoder) Fail() { d.broken, d.rest = true, nil }

// Done reports whether the whole message was read and valid.
func (d *Decoder) Done() bool { return !d.broken && len(d.rest) == 0 }

// Number reads a number.
func (d *Decoder) Number() uint64 {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 {
		d.Fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// Signed reads a number that may be negative.
func (d *Decoder) Signed() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.Fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// Count reads the number of elements that follow, each of which takes at least size bytes. So memory for
// the elements is limited by the size of the message.
func (d *Decoder) Count(size int) int {
	n := d.Number()
	if n > uint64(len(d.rest)/size) {
		d.Fail()
		return 0
	}
	return int(n)
}

// Flag reads a truth value.
func (d *Decoder) Flag() bool {
	if len(d.rest) == 0 || d.rest[0] > 1 {
		d.Fail()
		return false
	}
	f := d.rest[0] == 1
	d.rest = d.rest[1:]
	return f
}

// Text reads a text.
func (d *Decoder) Text() string {
	n := d.Count(1)
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

// List reads texts; nil if there are none.
func (d *Decoder) List() []string {
	var l []string
	for range d.Count(1) {
		l = append(l, d.Text())
	}
	return l
}

// Rest returns the bytes that are left. They are a part of the decoded bytes.
func (d *Decoder) Rest() []byte {
	rest := d.rest
	d.rest = nil
	return rest
}
