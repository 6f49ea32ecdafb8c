package native

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tetherexec/tether/internal/sandbox/stage"
)

// The layout of a script in the memory of the stage, which the assembly knows: a header, the records, the data.
const (
	scriptBase   = 0x10000000
	headerSize   = 64
	headerErrno  = 8  // offset of the error number of a failure
	headerRecord = 16 // offset of the address of the record that failed
	recordSize   = 64
	firstPseudo  = 0x10000
	mayFailFlag  = 64
)

// The descriptors of the stage besides those of [proc.Launcher], which the assembly knows.
const (
	scriptFile = 6
	reportFile = 7
	imageFile  = 8

	programFile = 9 // the command, if it is this program
)

// exitBroken is the exit code of a stage that gives up.
const exitBroken = 125

// maxScript bounds a script in bytes. The environment and the arguments of a command are in it.
const maxScript = 32 << 20

// Calls that the stage itself carries out.
const (
	callCompare   = firstPseudo + iota // fails with the errno d unless a & b == c
	callJump                           // continues at a
	callJumpEqual                      // continues at d if a & b == c
	callSet                            // the result is a
	callFail                           // fails with the errno a
	callExitLike                       // exits as a process with the wait status a has exited
	callAdd                            // the result is a + b
)

// A value is an argument of a record.
type value struct {
	kind valueKind
	n    uint64
}

type valueKind uint8

const (
	isNumber  valueKind = iota
	isAddress           // the address of the data at n
	isContent           // the 64 bits of the data at n, when the record is carried out
	isLabel             // the address of the record that the label n marks
	isHeader            // the 64 bits of the header at n
)

func number[T ~int | ~uint | ~uint32 | ~uint64 | ~int64](n T) value {
	return value{isNumber, uint64(n)}
}

// everything is a mask for compare and jumpEqual.
var everything = number(^uint64(0))

// A cell is a place for 64 bits in the data.
type cell uint64

func (c cell) content() value { return value{isContent, uint64(c)} }
func (c cell) address() value { return value{isAddress, uint64(c)} }

// at returns the cell that lies so many bytes behind c.
func (c cell) at(offset int) cell { return c + cell(offset) }

// A label marks a record. It may be used before it is placed.
type label int

func (l label) address() value { return value{isLabel, uint64(l)} }

type record struct {
	call   uint32
	flags  uint32 // mayFailFlag: errors do not end the start
	args   [6]value
	result cell // 0: not stored
	step   int  // the step to which the record belongs
}

// A Script is what the stage carries out.
type Script struct {
	records  []record
	data     []byte
	pointers []pointer // addresses in the data
	labels   []int     // the indexes of the records that are marked; -1: not placed
	steps    []step
	texts    map[string]cell // constants in the data
	encoded  []byte
}

// A pointer is an address in the data.
type pointer struct {
	at   cell
	what value
}

// scripts has the memory of scripts that are no longer needed: 100 KiB each, which is most of what a sandboxed start allocates.
var scripts = sync.Pool{New: func() any {
	return &Script{records: make([]record, 0, 384), data: make([]byte, 0, 16<<10), texts: make(map[string]cell, 64)}
}}

// maxReused is the size in bytes of the largest script whose memory is used again.
const maxReused = 256 << 10

func newScript() *Script {
	s := scripts.Get().(*Script)
	s.room(8) // no cell has the number 0
	return s
}

// Free lets later scripts use the memory of this one, and of what Encode has returned. A script that is not freed is no leak.
func (s *Script) Free() {
	if cap(s.encoded) > maxReused {
		return
	}
	clear(s.texts)
	clear(s.steps)   // they have strings
	clear(s.encoded) // it has the environment of a command
	clear(s.data)
	*s = Script{s.records[:0], s.data[:0], s.pointers[:0], s.labels[:0], s.steps[:0], s.texts, s.encoded[:0]}
	scripts.Put(s)
}

// step begins a step: the records that follow belong to it.
func (s *Script) step(kind stepKind, path string) { s.steps = append(s.steps, step{kind, path}) }

// call adds a record.
func (s *Script) call(nr int, args ...value) *record {
	s.records = append(s.records, record{call: uint32(nr), step: len(s.steps) - 1})
	r := &s.records[len(s.records)-1]
	copy(r.args[:], args)
	return r
}

// into stores the result.
func (r *record) into(c cell) *record {
	r.result = c
	return r
}

// mayFail lets the script continue after an error.
func (r *record) mayFail() *record {
	r.flags |= mayFailFlag
	return r
}

// require fails with errno unless v has these bits under the mask.
func (s *Script) require(v, mask, want value, errno int) {
	s.call(callCompare, v, mask, want, number(errno))
}

func (s *Script) jump(to label) { s.call(callJump, to.address()) }

func (s *Script) jumpEqual(v, mask, want value, to label) {
	s.call(callJumpEqual, v, mask, want, to.address())
}

// label returns a label that has to be placed.
func (s *Script) label() label {
	s.labels = append(s.labels, -1)
	return label(len(s.labels) - 1)
}

// place lets a label mark the next record.
func (s *Script) place(l label) { s.labels[l] = len(s.records) }

// cell returns a cell that is 0 at first.
func (s *Script) cell() cell { return s.room(8) }

// room returns the place of so many zero bytes.
func (s *Script) room(size int) cell {
	at := len(s.data)
	s.data = append(s.data, make([]byte, (size+7)&^7)...)
	return cell(at)
}

// bytes returns the place of bytes that the stage can change.
func (s *Script) bytes(b []byte) cell {
	at := s.room(len(b))
	copy(s.data[at:], b)
	return at
}

// text returns the address of a constant string.
func (s *Script) text(t string) value { return s.constant(t + "\x00") }

// constant returns the address of constant bytes. Equal constants have the same address.
func (s *Script) constant(t string) value {
	at, ok := s.texts[t]
	if !ok {
		at = s.room(len(t))
		copy(s.data[at:], t)
		s.texts[t] = at
	}
	return at.address()
}

// numbers returns the address of constant 64-bit numbers.
func (s *Script) numbers(list ...uint64) value {
	var b []byte
	for _, n := range list {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return s.constant(string(b))
}

// pointTo stores an address in the data.
func (s *Script) pointTo(at cell, what value) { s.pointers = append(s.pointers, pointer{at, what}) }

// list returns the place of a list of addresses of strings, as argv is one.
func (s *Script) list(texts []string) cell {
	at := s.room(8 * (len(texts) + 1))
	for i, t := range texts {
		s.pointTo(at.at(8*i), s.text(t))
	}
	return at
}

// Records returns how many records the script has.
func (s *Script) Records() int { return len(s.records) }

// Address returns the address of a record, as [Script.Explain] expects it.
func (s *Script) Address(record int) uint64 {
	return scriptBase + headerSize + recordSize*uint64(record)
}

// MayReplace reports whether a record is a system call that must not fail.
func (s *Script) MayReplace(record int) bool {
	return s.records[record].call < firstPseudo && s.records[record].flags&mayFailFlag == 0
}

// Replace replaces the system call of a record in the encoded script. It is for tests of failures.
func (s *Script) Replace(encoded []byte, record, call int) {
	binary.LittleEndian.PutUint32(encoded[headerSize+recordSize*record:], uint32(call))
}

var errTooLarge = errors.New("the sandbox, the arguments and the environment of the command need more than 32 MiB: use fewer entries, or directories instead of patterns")

// Encode returns the script as the stage maps it, until Free.
func (s *Script) Encode() ([]byte, error) {
	dataAt := headerSize + recordSize*len(s.records)
	size := dataAt + len(s.data)
	if size > maxScript {
		return nil, errTooLarge
	}
	s.encoded = slices.Grow(s.encoded[:0], size)[:size]
	b := s.encoded
	clear(b)
	b[0] = stage.ReportStep
	resolve := func(v value) (uint64, error) {
		switch v.kind {
		case isAddress, isContent:
			if v.n+8 > uint64(len(s.data)) {
				return 0, fmt.Errorf("native script: address %d is outside of the data", v.n)
			}
			return scriptBase + uint64(dataAt) + v.n, nil
		case isLabel:
			if v.n >= uint64(len(s.labels)) || s.labels[v.n] < 0 || s.labels[v.n] >= len(s.records) {
				return 0, fmt.Errorf("native script: label %d is not placed", v.n)
			}
			return scriptBase + headerSize + recordSize*uint64(s.labels[v.n]), nil
		case isHeader:
			return scriptBase + v.n, nil
		}
		return v.n, nil
	}
	for i := range s.records {
		r := &s.records[i]
		to := b[headerSize+recordSize*i:]
		flags := r.flags
		for j, a := range r.args {
			n, err := resolve(a)
			if err != nil {
				return nil, err
			}
			if a.kind == isContent || a.kind == isHeader {
				flags |= 1 << j
			}
			binary.LittleEndian.PutUint64(to[8+8*j:], n)
		}
		binary.LittleEndian.PutUint32(to, r.call)
		binary.LittleEndian.PutUint32(to[4:], flags)
		if r.result != 0 {
			n, err := resolve(r.result.address())
			if err != nil {
				return nil, err
			}
			binary.LittleEndian.PutUint64(to[56:], n)
		}
	}
	copy(b[dataAt:], s.data)
	for _, p := range s.pointers {
		n, err := resolve(p.what)
		if err != nil {
			return nil, err
		}
		binary.LittleEndian.PutUint64(b[dataAt+int(p.at):], n)
	}
	return b, nil
}
