package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"unicode/utf8"
)

// Limits of one message. The reference client has the same limits for messages that it receives.
const (
	MaxDepth  = 127    // containers inside each other, the message itself included
	MaxValues = 262144 // objects, arrays and scalars; keys do not count
)

// linearKeys is the number of keys up to which an object is searched for duplicates key by key.
// Larger objects get an index.
const linearKeys = 64

// A scanner reads JSON text once and accepts exactly what the protocol accepts. Its errors have
// the texts and positions of the reference's.
type scanner struct {
	data   []byte
	pos    int
	depth  int
	values int
	keys   []seenKey // a stack: the keys of every object that is still open
	top    *envelope // gets the members of the outermost object; may be nil
}

type seenKey struct {
	hash uint64
	text []byte
}

var keySeed = maphash.MakeSeed()

// failAt is an error at the position pos.
func (s *scanner) failAt(pos int, msg string) error {
	before := s.data[:min(pos, len(s.data))]
	line := 1 + bytes.Count(before, []byte{'\n'})
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
	return fmt.Errorf("%s at line %d column %d", msg, line, column)
}

// fail is an error at the present position, failNext at the next byte.
func (s *scanner) fail(msg string) error     { return s.failAt(s.pos, msg) }
func (s *scanner) failNext(msg string) error { return s.failAt(s.pos+1, msg) }

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\n', '\t', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte after white space, 0 at the end. A NUL in the
// text also gives 0: no caller accepts either.
func (s *scanner) peek() byte {
	s.space()
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) atEnd() bool { return s.pos >= len(s.data) }

// end accepts nothing but white space up to the end of the text.
func (s *scanner) end() error {
	if s.space(); !s.atEnd() {
		return s.failNext("trailing characters")
	}
	return nil
}

// value skips one value.
func (s *scanner) value() error {
	s.space()
	if s.values++; s.values > MaxValues {
		return s.fail(fmt.Sprintf("JSON-RPC message exceeds the limit of %d JSON values", MaxValues))
	}
	if s.atEnd() {
		return s.fail("EOF while parsing a value")
	}
	switch c := s.data[s.pos]; c {
	case '"':
		_, _, err := s.str()
		return err
	case '{':
		return s.object()
	case '[':
		return s.array()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number()
	default:
		return s.failNext("expected value")
	}
}

func (s *scanner) enter() error {
	if s.depth == MaxDepth {
		return s.failNext("recursion limit exceeded")
	}
	s.depth++
	s.pos++
	return nil
}

func (s *scanner) array() error {
	if err := s.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		more, err := s.next(']', first)
		if err != nil || !more {
			return err
		}
		if err := s.value(); err != nil {
			return err
		}
	}
}

// next moves to the next element of a container, over the comma, and reports
// whether there is one; if not, the container has been left.
func (s *scanner) next(closing byte, first bool) (bool, error) {
	c := s.peek()
	switch {
	case s.atEnd() && closing == ']':
		return false, s.fail("EOF while parsing a list")
	case s.atEnd():
		return false, s.fail("EOF while parsing an object")
	case c == closing:
		s.pos++
		s.depth--
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, s.failNext("expected `,` or `" + string(closing) + "`")
	}
	s.pos++
	switch c := s.peek(); {
	case s.atEnd():
		return false, s.fail("EOF while parsing a value")
	case c == closing:
		return false, s.failNext("trailing comma")
	}
	return true, nil
}

// key reads a member's name. The text aliases the data unless it has escapes.
func (s *scanner) key() ([]byte, error) {
	if s.data[s.pos] != '"' {
		return nil, s.failNext("key must be a string")
	}
	raw, escaped, err := s.str()
	if err != nil {
		return nil, err
	}
	if escaped {
		raw = unescape(raw)
	}
	return raw, nil
}

func (s *scanner) colon() error {
	switch c := s.peek(); {
	case s.atEnd():
		return s.fail("EOF while parsing an object")
	case c != ':':
		return s.failNext("expected `:`")
	}
	s.pos++
	return nil
}

func (s *scanner) object() error {
	if err := s.enter(); err != nil {
		return err
	}
	outermost := s.depth == 1 && s.top != nil
	base := len(s.keys)
	var index map[uint64][]byte // of this object's keys, once there are many
	for first := true; ; first = false {
		more, err := s.next('}', first)
		if err != nil {
			return err
		}
		if !more {
			s.keys = s.keys[:base]
			return nil
		}
		key, err := s.key()
		if err != nil {
			return err
		}
		if index, err = s.remember(key, base, index); err != nil {
			return err
		}
		if err := s.colon(); err != nil {
			return err
		}
		s.space()
		start := s.pos
		if err := s.value(); err != nil {
			return err
		}
		if outermost {
			s.top.add(key, s.data[start:s.pos:s.pos])
		}
	}
}

// remember notes a key of the object whose keys start at base, or refuses it
// as a duplicate.
func (s *scanner) remember(key []byte, base int, index map[uint64][]byte) (map[uint64][]byte, error) {
	hash := maphash.Bytes(keySeed, key)
	seen := s.keys[base:]
	duplicate := false
	if index == nil {
		for i := range seen {
			if seen[i].hash == hash && bytes.Equal(seen[i].text, key) {
				duplicate = true
				break
			}
		}
	} else if other, ok := index[hash]; ok {
		duplicate = bytes.Equal(other, key)
		for i := 0; i < len(seen) && !duplicate; i++ { // two texts with one hash
			duplicate = bytes.Equal(seen[i].text, key)
		}
	}
	if duplicate {
		if s.peek() == '}' {
			s.pos++ // the position in the reference's error
		}
		return nil, s.fail("duplicate JSON object key `" + string(clip(key)) + "`")
	}
	s.keys = append(s.keys, seenKey{hash, key})
	if index == nil && len(seen) >= linearKeys {
		index = make(map[uint64][]byte, 4*linearKeys)
		for _, k := range s.keys[base:] {
			index[k.hash] = k.text
		}
	} else if index != nil {
		index[hash] = key
	}
	return index, nil
}

func (s *scanner) word(w string) error {
	for i := range len(w) {
		if s.atEnd() {
			return s.fail("EOF while parsing a value")
		}
		s.pos++
		if s.data[s.pos-1] != w[i] {
			return s.fail("expected ident")
		}
	}
	return nil
}

func (s *scanner) number() error {
	if s.data[s.pos] == '-' {
		s.pos++
	}
	if !s.atEnd() && s.data[s.pos] == '0' {
		if s.pos++; !s.atEnd() && isDigit(s.data[s.pos]) {
			return s.failNext("invalid number")
		}
	} else if err := s.digits(); err != nil {
		return err
	}
	if !s.atEnd() && s.data[s.pos] == '.' {
		s.pos++
		if err := s.digits(); err != nil {
			return err
		}
	}
	if !s.atEnd() && (s.data[s.pos] == 'e' || s.data[s.pos] == 'E') {
		s.pos++
		if !s.atEnd() && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

// digits skips one digit or more.
func (s *scanner) digits() error {
	start := s.pos
	for !s.atEnd() && isDigit(s.data[s.pos]) {
		s.pos++
	}
	switch {
	case s.pos > start:
		return nil
	case s.atEnd():
		return s.fail("EOF while parsing a value")
	}
	return s.failNext("invalid number")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// str skips a string and returns the text between the quotes.
func (s *scanner) str() (raw []byte, escaped bool, err error) {
	s.pos++
	start := s.pos
	ascii := true
	for {
		var plain bool
		s.pos, plain = skipPlain(s.data, s.pos)
		ascii = ascii && plain
		if s.atEnd() {
			return nil, false, s.fail("EOF while parsing a string")
		}
		switch s.pos++; s.data[s.pos-1] {
		case '"':
			raw = s.data[start : s.pos-1]
			if !ascii && !utf8.Valid(raw) {
				return nil, false, s.fail("invalid unicode code point")
			}
			return raw, escaped, nil
		case '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return nil, false, err
			}
		default:
			return nil, false, s.fail(`control character (\u0000-\u001F) found while parsing a string`)
		}
	}
}

// skipPlain returns the position of the next quote, backslash or control character from i on,
// and whether all bytes before it are ASCII (a non-ASCII byte just after that position may also
// make it false). It reads eight bytes at a time because a message may be one string of many
// megabytes. With norace, because the race detector would otherwise check each byte, which took a
// fifth of the time of large transfers in tests; it checks the callers' accesses to the same string.
//
//go:norace
func skipPlain(data []byte, i int) (int, bool) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	var all uint64
	for ; i+8 <= len(data); i += 8 {
		w := binary.LittleEndian.Uint64(data[i:])
		quote, slash := w^('"'*ones), w^('\\'*ones)
		// The lowest high bit set here marks the first byte that ends the run.
		stop := ((w-' '*ones)&^w | (quote-ones)&^quote | (slash-ones)&^slash) & highs
		all |= w
		if stop != 0 {
			return i + bits.TrailingZeros64(stop)/8, all&highs == 0
		}
	}
	for ; i < len(data); i++ {
		c := data[i]
		if c == '"' || c == '\\' || c < ' ' {
			break
		}
		all |= uint64(c)
	}
	return i, all&highs == 0
}

// escape skips the rest of an escape, after its backslash.
func (s *scanner) escape() error {
	if s.atEnd() {
		return s.fail("EOF while parsing a string")
	}
	s.pos++
	switch s.data[s.pos-1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
	default:
		return s.fail("invalid escape")
	}
	r, err := s.hex4()
	switch {
	case err != nil:
		return err
	case r < 0xD800 || r > 0xDFFF:
		return nil
	case r >= 0xDC00:
		return s.fail("lone leading surrogate in hex escape")
	}
	for _, want := range []byte{'\\', 'u'} {
		if s.atEnd() {
			return s.fail("EOF while parsing a string")
		}
		if s.pos++; s.data[s.pos-1] != want {
			return s.fail("unexpected end of hex escape")
		}
	}
	if r, err = s.hex4(); err != nil {
		return err
	}
	if r < 0xDC00 || r > 0xDFFF {
		return s.fail("lone leading surrogate in hex escape")
	}
	return nil
}

func (s *scanner) hex4() (rune, error) {
	if s.pos+4 > len(s.data) {
		s.pos = len(s.data)
		return 0, s.fail("EOF while parsing a string")
	}
	digits := s.data[s.pos : s.pos+4]
	s.pos += 4
	r, ok := hexRune(digits)
	if !ok {
		return 0, s.fail("invalid escape")
	}
	return r, nil
}

func hexRune(digits []byte) (rune, bool) {
	var r rune
	for _, c := range digits {
		d, ok := unhex(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

func unhex(c byte) (byte, bool) {
	switch {
	case isDigit(c):
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// unescape resolves the escapes of a string that str has accepted.
func unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(out, raw...)
		}
		out = append(out, raw[:i]...)
		c := raw[i+1]
		raw = raw[i+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hexRune(raw[:4])
			raw = raw[4:]
			if 0xD800 <= r && r <= 0xDBFF { // str has checked that the other half follows
				low, _ := hexRune(raw[2:6])
				r = (r-0xD800)<<10 | (low - 0xDC00) + 0x10000
				raw = raw[6:]
			}
			out = utf8.AppendRune(out, r)
			continue
		}
		out = append(out, c)
	}
}

// maxQuoted bounds how much of a peer's text an error repeats.
const maxQuoted = 1024

// clip shortens text that goes into an error.
func clip(text []byte) []byte {
	if len(text) <= maxQuoted {
		return text
	}
	end := maxQuoted
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return append(text[:end:end], "…"...)
}

var errNotObject = errors.New("expected a JSON-RPC object")
