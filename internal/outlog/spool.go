package outlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// errSpoolFull means that a segment cannot be stored now: the total is used up
// or the disk is full.
var errSpoolFull = errors.New("spool is full")

// spareBlocks is how many unused blocks a spool file keeps for the next
// segments; the disk space of further ones is given back.
const spareBlocks = 8

// A Pool is the room that all logs of a server share: the directory of their
// spool files and the limit on the sum of these.
type Pool struct {
	dir   string
	total int64

	mu      sync.Mutex
	used    int64             // bytes of blocks in use
	limit   int64             // total, or less while the disk is short
	refresh int64             // value of used at which limit is computed again
	logs    map[*Log]struct{} // those that use blocks
	waiting map[*Log]struct{} // those that wait for blocks
}

// NewPool returns a pool of at most total bytes in dir, which must exist.
func NewPool(dir string, total int64) *Pool {
	return &Pool{dir: dir, total: total, logs: map[*Log]struct{}{}, waiting: map[*Log]struct{}{}}
}

// Used is the number of bytes that logs have spooled.
func (p *Pool) Used() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// limitStep is how much the pool grows before the free disk is looked at again.
const limitStep = 64 * segmentCost

// take reserves one block for l. When the total is used up, entries that were
// sent make room, whichever log they belong to.
func (p *Pool) take(l *Log) error {
	for {
		p.mu.Lock()
		if p.limit == 0 || p.used >= p.refresh {
			p.limit = p.total
			if free, err := freeDisk(p.dir); err == nil {
				p.limit = min(p.total, p.used+free/2)
			}
			p.refresh = p.used + limitStep
		}
		if p.used+segmentCost <= p.limit {
			p.used += segmentCost
			p.logs[l] = struct{}{}
			delete(p.waiting, l)
			p.mu.Unlock()
			return nil
		}
		p.waiting[l] = struct{}{} // before looking for room, so that none freed from here on is missed
		p.refresh = p.used
		others := make([]*Log, 0, len(p.logs))
		for other := range p.logs {
			others = append(others, other)
		}
		p.mu.Unlock()

		freed := false
		for _, other := range others {
			if freed = other.evictSent(); freed {
				break
			}
		}
		if !freed {
			return errSpoolFull
		}
	}
}

// give returns n blocks of l and wakes the logs that wait for some. It may be
// called with the lock of l held.
func (p *Pool) give(l *Log, n int64, lastOfLog bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n * segmentCost
	if lastOfLog {
		delete(p.logs, l)
	}
	for w := range p.waiting {
		if w != l {
			w.poke()
		}
	}
	clear(p.waiting)
}

// A spool is the file of one log: blocks of segmentCost bytes, reused in any
// order. Its methods are called by one goroutine at a time, except read.
type spool struct {
	file *os.File
	size int64   // in blocks
	free []int64 // blocks that can be used again
}

// openSpool creates a file that only this process can reach: it has no name.
func openSpool(dir string) (*spool, error) {
	f, err := os.CreateTemp(dir, "spool-")
	if err != nil {
		return nil, fmt.Errorf("create spool file: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("unlink spool file %s: %w", filepath.Base(f.Name()), err)
	}
	return &spool{file: f}, nil
}

// next is the block that the next segment goes to.
func (s *spool) next() (block int64) {
	if n := len(s.free); n > 0 {
		block, s.free = s.free[n-1], s.free[:n-1]
		return block
	}
	s.size++
	return s.size - 1
}

// release makes a block available again.
func (s *spool) release(block int64) {
	s.free = append(s.free, block)
	if len(s.free) > spareBlocks {
		punchHole(s.file, block*segmentCost, segmentCost)
	}
}

func (s *spool) write(block int64, b []byte) error {
	_, err := s.file.WriteAt(b, block*segmentCost)
	return err
}

func (s *spool) read(block int64, offset int, b []byte) error {
	_, err := s.file.ReadAt(b, block*segmentCost+int64(offset))
	return err
}
