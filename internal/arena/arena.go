package arena

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/tetherexec/tether/internal/crash"
)

// Errors of Create and Open.
var (
	// ErrUnsupported means that this system has no memory files.
	ErrUnsupported = errors.New("memory that outlives the process is not supported on this system")

	// ErrNewer means that a newer program has written what is to be read.
	ErrNewer = errors.New("written by a newer version of tether")

	// ErrDamaged means that the content cannot be what a program of tether wrote.
	ErrDamaged = errors.New("damaged")

	// ErrNotMemory means that a file is on a disk: the kernel may fail to record there what it has done, if the process
	// is killed meanwhile.
	ErrNotMemory = errors.New("not on a file system in memory")

	// ErrFull means that all slots or blocks are in use, or the journal has no room.
	ErrFull = errors.New("no room in the arena")
)

// Config is the geometry of a new arena. Zero values stand for the defaults. The file is
// sparse: what is not used takes address space only.
type Config struct {
	Slots   int   // processes; DefaultSlots
	Blocks  int   // blocks of logs; DefaultBlocks
	Journal int64 // bytes of one half of the journal; DefaultJournal

	// Path is the file to make, which must not exist, on a file system in memory (tmpfs): then OpenPath finds the
	// arena after all its processes have died. "": the memory has no name, and ends with them.
	Path string
}

// Defaults of Config. A log has up to six blocks; most have one.
const (
	DefaultSlots   = 1 << 16
	DefaultBlocks  = 1 << 18
	DefaultJournal = 1 << 30
)

// An Arena is mapped memory. Its methods may be called by any number of goroutines.
type Arena struct {
	file   *os.File
	fd     int // of file
	mem    []byte
	header *header
	geometry

	journal Journal

	mu     sync.Mutex // guards the fields below
	slots  slotTable
	blocks blockTable
}

// Create returns a new arena.
func Create(c Config) (*Arena, error) {
	g := geometry{
		slotCount:  uint64(cmp.Or(c.Slots, DefaultSlots)),
		blockCount: uint64(cmp.Or(c.Blocks, DefaultBlocks)),
		halfSize:   uint64(roundUp(cmp.Or(c.Journal, DefaultJournal))),
	}
	if !g.valid() {
		return nil, fmt.Errorf("an arena cannot have %d slots, %d blocks and %d bytes of journal", g.slotCount, g.blockCount, g.halfSize)
	}
	f, err := createFile(c.Path, g.size())
	if err != nil {
		return nil, err
	}
	a, err := attach(f, g, true)
	if err != nil {
		f.Close()
		return nil, err
	}
	if err := a.initialise(); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// attach maps a file.
func attach(f *os.File, g geometry, write bool) (*Arena, error) {
	mem, err := mapFile(f, g.mapped(), write)
	if err != nil {
		return nil, err
	}
	a := &Arena{file: f, fd: int(f.Fd()), mem: mem, header: at[header](mem, 0), geometry: g}
	a.journal.arena = a
	return a, nil
}

// initialise writes the header of a new arena. Its magic number comes last.
func (a *Arena) initialise() error {
	if err := a.allocate(0, page); err != nil {
		return err
	}
	if err := a.journal.prepare(0); err != nil {
		return err
	}
	h := a.header
	h.version, h.geometry, h.check = Version, a.geometry, a.geometry.checksum()
	copy(h.magic[:], magic)
	pointCreate.Passed()
	return nil
}

var pointCreate = crash.NewPoint("arena.create")

// File returns the memory file. It belongs to the arena.
func (a *Arena) File() *os.File { return a.file }

// Journal returns the journal.
func (a *Arena) Journal() *Journal { return &a.journal }

// Restoring returns the words for a program that takes over.
func (a *Arena) Restoring() *Restoring { return &a.header.restoring }

// Close unmaps the arena. No method may be called after it, and no slot or block used.
func (a *Arena) Close() error { return errors.Join(unmapFile(a.mem), a.file.Close()) }
