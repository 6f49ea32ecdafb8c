package outlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tetherexec/tether/internal/arena"
)

// errSpoolFull means that a segment cannot be stored now: the limit of the pool is
// reached, or the disk is full.
var errSpoolFull = errors.New("spool is full")

const (
	// spareBlocks is how many unused blocks a spool file keeps for the next
	// segments. The disk space of further blocks is given back. With fewer, a busy log gives blocks
	// back that it needs again a moment later, because segments are stored and dropped in bursts:
	// that took 6 % of the server's processor time.
	spareBlocks = 16

	// scarceBlocks is how many of them it keeps when another log needs disk space.
	scarceBlocks = 2

	// measureStep is how much the pool grows before it measures the free disk space
	// again.
	measureStep = 64 * segmentCost
)

// A Pool is the spool space that all logs of a server share: the directory of their
// spool files, and the limit on their total size.
//
// Lock order: a log may call the pool while it holds its own lock. The pool calls a
// log only while it holds no lock, except for poke, which takes none.
type Pool struct {
	dir   string
	named bool // see KeepNames

	ended atomic.Int64 // output of logs that have ended

	mu        sync.Mutex
	total     int64
	used      int64             // bytes of blocks in use
	disk      int64             // bytes of blocks that take disk space, in use or not
	limit     int64             // total, or less while the disk is short
	measureAt int64             // value of used at which limit has to be measured again
	evictable map[*Log]struct{} // logs whose oldest segment is spooled and released
	waiting   map[*Log]struct{} // logs that wait for a block
}

// NewPool returns a pool of at most total bytes in dir, which must exist.
func NewPool(dir string, total int64) *Pool {
	return &Pool{dir: dir, total: total, evictable: map[*Log]struct{}{}, waiting: map[*Log]struct{}{}}
}

// SetTotal changes the limit. What is kept already may exceed a smaller one; no more is added then.
func (p *Pool) SetTotal(total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total, p.measureAt = total, 0
	p.pokeLocked()
}

// Ended is how many bytes of output there were in logs that have ended.
func (p *Pool) Ended() int64 { return p.ended.Load() }

// KeepNames makes the spool files of logs in an arena keep their names, so that Reopen finds them although no process has
// them open. Call it before the first log.
func (p *Pool) KeepNames() { p.named = true }

// spoolPrefix begins the names of spool files.
const spoolPrefix = "spool-"

// name is the name of the spool file of a log; "": it has none, or none that is known.
func (p *Pool) name(serial uint64) string {
	if !p.named || serial == 0 {
		return ""
	}
	return filepath.Join(p.dir, spoolPrefix+strconv.FormatUint(serial, 10))
}

// Sweep removes spool files that have a name and belong to no log in an arena: of logs that were forgotten, and of a process that
// died before it could remove the name. No other process may use the pool.
func (p *Pool) Sweep(a *arena.Arena) error {
	kept := map[string]bool{}
	for _, slot := range a.Slots() {
		if slot.LogEnded.Load() == 0 {
			kept[p.name(slot.Serial.Load())] = true
		}
	}
	found, err := filepath.Glob(filepath.Join(p.dir, spoolPrefix+"*"))
	for _, name := range found {
		if !kept[name] {
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}

// take reserves one block for l. If there is none, released entries of any log make
// room. If there are none of these either, it returns errSpoolFull, and l is poked
// as soon as there may be a block, unless that depends on the disk.
func (p *Pool) take(l *Log) error {
	for {
		p.measure()
		victim, err := p.reserve(l)
		if victim == nil {
			return err
		}
		victim.evictReleased()
	}
}

// reserve takes a block if there is one. Otherwise it returns a log that can make
// room.
func (p *Pool) reserve(l *Log) (victim *Log, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+segmentCost <= p.limit {
		p.used += segmentCost
		delete(p.waiting, l)
		return nil, nil
	}
	p.measureAt = 0
	for victim := range p.evictable {
		return victim, nil
	}
	p.waiting[l] = struct{}{}
	return nil, errSpoolFull
}

// adopt accounts for blocks of a log that was opened again.
func (p *Pool) adopt(blocks int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used += blocks * segmentCost
	p.disk += blocks * segmentCost
}

// measure updates the limit: the total, but at most half of the disk space that
// would be free without the spool.
func (p *Pool) measure() {
	p.mu.Lock()
	stale := p.used >= p.measureAt
	p.mu.Unlock()
	if !stale {
		return
	}
	free, err := freeDisk(p.dir)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = p.total
	if err == nil {
		p.limit = min(p.total, (p.disk+free)/2)
	}
	p.measureAt = p.used + measureStep
}

// give returns one block and wakes the logs that wait for one.
func (p *Pool) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= segmentCost
	p.pokeLocked()
}

// cancel returns a block that could not be written because the disk is full. It
// wakes no log, because that would fail in the same way: every log tries again
// after retrySpool.
func (p *Pool) cancel() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= segmentCost
	p.measureAt = 0
}

// occupy accounts for blocks that take disk space now, or no longer.
func (p *Pool) occupy(blocks int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.disk += blocks * segmentCost
}

// offer records whether the oldest segment of l can make room for other logs.
func (p *Pool) offer(l *Log, evictable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !evictable {
		delete(p.evictable, l)
		return
	}
	p.evictable[l] = struct{}{}
	p.pokeLocked()
}

// leave removes a log that has ended.
func (p *Pool) leave(l *Log) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.evictable, l)
	delete(p.waiting, l)
}

func (p *Pool) pokeLocked() {
	for l := range p.waiting {
		l.room.poke()
	}
	clear(p.waiting)
}

// A spool is the file of one log: blocks of segmentCost bytes, used in any
// order. The lock of the log guards it, except for reads and writes.
//
// A block has a mark, the bytes of a segment, and its records. They fit: the cost of an
// entry is more than its record, and a segment has at most four entries of full size.
type spool struct {
	file  *os.File
	name  string  // removed at the end; empty if the file has no name any more
	size  int64   // in blocks
	disk  int64   // how many of them take disk space
	free  []int64 // blocks that can be used again
	holes []int64 // free blocks without disk space
}

// openSpool creates a file. Without a name it has, if the system allows it, none: only this
// process can use it, and it ends with the process.
func openSpool(dir, name string) (*spool, error) {
	if name != "" {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, fmt.Errorf("create spool file: %w", err)
		}
		return &spool{file: f, name: name}, nil
	}
	f, err := os.CreateTemp(dir, spoolPrefix)
	if err != nil {
		return nil, fmt.Errorf("create spool file: %w", err)
	}
	s := &spool{file: f}
	if os.Remove(f.Name()) != nil {
		s.name = f.Name()
	}
	return s, nil
}

func (s *spool) close() {
	s.file.Close()
	if s.name != "" {
		os.Remove(s.name)
	}
}

// next is the block for the next segment. grows says whether it takes more disk
// space.
func (s *spool) next() (block int64, grows bool) {
	if n := len(s.free); n > 0 {
		block, s.free = s.free[n-1], s.free[:n-1]
		return block, false
	}
	s.disk++
	if n := len(s.holes); n > 0 {
		block, s.holes = s.holes[n-1], s.holes[:n-1]
		return block, true
	}
	s.size++
	return s.size - 1, true
}

// release makes a block available again.
func (s *spool) release(block int64) { s.free = append(s.free, block) }

// surplus takes out a free block, if there are more than the given number.
func (s *spool) surplus(spare int) (block int64, ok bool) {
	n := len(s.free)
	if n <= spare {
		return 0, false
	}
	block, s.free = s.free[n-1], s.free[:n-1]
	return block, true
}

// punch gives the disk space of a block back.
func (s *spool) punch(block int64) { punchHole(s.file, block*segmentCost, segmentCost) }

func (s *spool) write(block int64, offset int, b []byte) error {
	_, err := s.file.WriteAt(b, block*segmentCost+markSize+int64(offset))
	return err
}

func (s *spool) read(block int64, offset int, b []byte) error {
	_, err := s.file.ReadAt(b, block*segmentCost+markSize+int64(offset))
	return err
}

// A mark says which segment a block has. It is written when the segment is complete. A
// log that is opened again finds its segments by their marks: those with its serial number,
// and with numbers of entries that the log has in its spool. Marks of other numbers are of
// segments that were dropped, or did not get far enough to be dropped from memory.
type mark struct {
	serial uint64 // of the log's slot
	first  uint64 // number of its first entry
	start  uint64 // bytes of output before it
	count  uint32
	size   uint32 // bytes of its entries
}

const (
	markSize  = 64
	markMagic = 0x6c6f6f7073746874
)

func newMark(serial uint64, s *segment) mark {
	return mark{serial: serial, first: s.first, start: s.start, count: uint32(s.count), size: uint32(s.size)}
}

// encode returns the mark as it is in the file: with a magic number at the start and a checksum at the end.
func (m mark) encode() (b [markSize]byte) {
	binary.LittleEndian.PutUint64(b[0:], markMagic)
	binary.LittleEndian.PutUint64(b[8:], m.serial)
	binary.LittleEndian.PutUint64(b[16:], m.first)
	binary.LittleEndian.PutUint64(b[24:], m.start)
	binary.LittleEndian.PutUint32(b[32:], m.count)
	binary.LittleEndian.PutUint32(b[36:], m.size)
	binary.LittleEndian.PutUint64(b[56:], uint64(crc32.ChecksumIEEE(b[:])))
	return b
}

// decodeMark is false if b is not a mark, or a damaged one.
func decodeMark(b [markSize]byte) (mark, bool) {
	m := mark{
		serial: binary.LittleEndian.Uint64(b[8:]),
		first:  binary.LittleEndian.Uint64(b[16:]),
		start:  binary.LittleEndian.Uint64(b[24:]),
		count:  binary.LittleEndian.Uint32(b[32:]),
		size:   binary.LittleEndian.Uint32(b[36:]),
	}
	return m, m.encode() == b
}

func (s *spool) mark(block int64, m mark) error {
	b := m.encode()
	_, err := s.file.WriteAt(b[:], block*segmentCost)
	return err
}

// readMark returns the mark of a block; ok is false if it has none.
func (s *spool) readMark(block int64) (m mark, ok bool, err error) {
	var b [markSize]byte
	if _, err := s.file.ReadAt(b[:], block*segmentCost); err != nil {
		return mark{}, false, err
	}
	m, ok = decodeMark(b)
	return m, ok, nil
}
