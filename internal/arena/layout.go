package arena

import (
	"hash/crc32"
	"sync"
	"unsafe"
)

// Version is the version of the format. A program refuses a newer one.
const Version = 1

const (
	magic = "tether\x00\xa5"

	// page is the unit of the layout, and of allocation. On a kernel with larger pages
	// the kernel rounds up.
	page = 4 << 10

	// SlotSize is the size of a slot.
	SlotSize = 512

	// blockHead is the part of a block before its data: its header and its first records. So
	// a process that has printed a little takes one page.
	blockHead = 1 << 10

	// BlockData is how many bytes a block has for the data and the further records of a
	// log's segment together. The records grow downwards from the end. A segment ends when the
	// cost of its entries reaches 260 KiB, and the cost of an entry is more than its record.
	BlockData = 263 << 10

	blockSize = blockHead + BlockData

	// journalHead is the part of a half of the journal before its records.
	journalHead = 64

	// InputSize is the range of a slot in the part for input. Its pages are punched behind
	// the position of the reader, so a range much larger than the queue needs no memory, and
	// a single write of any legal size fits.
	InputSize = 256 << 20
)

// Limits of the geometry in a header: larger numbers are damage.
const (
	maxSlots   = 1 << 20
	maxBlocks  = 1 << 22
	maxJournal = 1 << 36
)

// header is the first page.
type header struct {
	magic   [8]byte
	version uint32
	check   uint32 // of geometry
	geometry
	serial     Word // the newest serial number of a slot
	slotsUsed  Word // slots below this number were in use and have pages
	blocksUsed Word // blocks below this number were in use and may have pages
	half       Word // the half of the journal that counts: 0 or 1
	restoring  Restoring
}

// Restoring is for the program that takes over what an earlier one has left: it tells what the programs
// before it have died of.
type Restoring struct {
	Attempts Word // programs that have begun to take over, since the last one that has completed it
	Suspect  Word // what the last of them was taking over; 0: nothing in particular
	Accused  Word // the last Suspect that a program has died of
	Times    Word // how many programs in a row have died of it
}

// geometry says where everything is. It never changes.
type geometry struct {
	slotCount  uint64
	blockCount uint64
	halfSize   uint64 // bytes of one half of the journal
}

func (g *geometry) checksum() uint32 {
	return crc32.Checksum(unsafe.Slice((*byte)(ptr(g)), unsafe.Sizeof(*g)), castagnoli())
}

// castagnoli is made when it is first needed: that takes a tenth of a millisecond, and most commands need none.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

func (g *geometry) valid() bool {
	return g.slotCount > 0 && g.slotCount <= maxSlots && g.blockCount > 0 && g.blockCount <= maxBlocks &&
		g.halfSize > journalHead && g.halfSize <= maxJournal && g.halfSize%page == 0
}

// The parts, as offsets in the file.
func (g *geometry) slotAt(i uint64) int64 { return page + int64(i)*SlotSize }
func (g *geometry) halfAt(i uint64) int64 {
	return roundUp(g.slotAt(g.slotCount)) + int64(i*g.halfSize)
}
func (g *geometry) blockAt(i uint64) int64 { return g.halfAt(2) + int64(i)*blockSize }
func (g *geometry) mapped() int64          { return g.blockAt(g.blockCount) }
func (g *geometry) inputAt(i uint64) int64 { return g.mapped() + int64(i)*InputSize }
func (g *geometry) size() int64            { return g.inputAt(g.slotCount) }

func roundUp(n int64) int64 { return (n + page - 1) / page * page }

// SlotWords is the content of a slot. State is 0 while the slot is free.
type SlotWords struct {
	// The process, for the packages that start and end it.
	State     Word   // SlotFree, SlotTaken, or a larger number of the package that uses the slot
	Serial    Word   // tells this use of the slot from all others
	Pid       Word32 // written by the kernel at the clone
	_         Word32
	Failure   Word // written by a child that could not execute its program
	Exited    Word // 1: ExitCode is valid
	ExitCode  Word
	Ending    Word // 1: the process is being terminated; 2: because its time was up
	StartedAt Word // unix nanoseconds

	// The log (package outlog). The first eight are one cache line.
	Off       Word // position in the file where the next output goes; written by the kernel; 0: no block yet
	Stream    Word // stream of the bytes behind the last record
	Sealed    Word // newest number that was read: that entry does not change any more
	First     Word // oldest number that is kept; 0 counts as 1
	Memory    Word // kept numbers below this one are in the spool file
	Released  Word // up to this number entries may be forgotten
	Sent      Word // newest number that a connection was sent
	Delivered Word // up to this number the client has all entries
	LogEnded  Word // 1: the log is ended and has no blocks
	LogExit   Word // number of the exit, once its record is no longer in memory
	LogCode   Word // and its code

	// The records of exit and close, if they come before any output.
	small     Word // how many there are
	smallRecs [smallRecords]Record

	// Input (package proc), see input.go.
	InputPos    Word    // position of the reader; written by the kernel
	InputIndex  Word    // which of the pairs below counts
	InputEnd    [2]Word // end of the accepted input
	InputWrites [2]Word // ordinal of the last accepted write
	InputClose  Word    // 1: the input ends behind InputEnd

	// More about the process.
	Cgroup    Word // number of its cgroup; 0: none
	CgroupCPU Word // nanoseconds of CPU time that were used in the cgroup before
	Leader    Word // pid of the command, if Pid is that of a launcher; 0: unknown
	Launcher  Word // 0: Pid is that of the command; 1: of a launcher; 2: of one that stays
	Reported  Word // 1: the launcher has reported the command, and what it has reported is recorded

	// Limits of the process (package proc).
	Limits     [SlotLimits]Word // their values; 0: none
	LimitsBy   Word             // how each is enforced, and which use of the slot these words belong to: other programs leave them as they are
	LimitGroup Word             // number of the control groups that enforce them; 0: none
	Usage      UsageWords

	_ [slotSpare]byte
}

// UsageWords have what the process has used (packages proc and outlog). A program that does not know them leaves them
// as they are: so they count only if the word before them has the serial number of the slot.
type UsageWords struct {
	Begun         Word // serial number of the slot: the words up to Ended count
	Inherited     Word // bytes of memory that the program had when it made the process
	Init          Word // pid of the process whose end ends all others of a launcher; 0: unknown
	CgroupUser    Word // nanoseconds of CPU time in user mode that were used in the cgroup before: a part of CgroupCPU
	CgroupFresh   Word // 1: no other process was in the cgroup before
	BlockedSince  Word // unix nanoseconds: since when the output is not read; 0: it is
	BlockedBefore Word // nanoseconds for which it was not read before

	Ended    Word // serial number of the slot: the words below count
	Wall     Word // nanoseconds
	Blocked  Word // nanoseconds
	User     Word // nanoseconds
	System   Word // nanoseconds
	Memory   Word // bytes
	Read     Word // bytes
	Written  Word // bytes
	Details  Word // package proc has the encoding
	KillSize Word // bytes of the limit because of which processes were killed
}

// smallRecords is how many records a slot has room for: an exit and a close.
const smallRecords = 2

// SlotLimits is how many limits a slot has room for.
const SlotLimits = 6

// slotSpare fills a slot up.
const slotSpare = SlotSize - 8*8 - 11*8 - 8 - smallRecords*int(unsafe.Sizeof(Record{})) - 7*8 - 5*8 - (SlotLimits+2)*8 - int(unsafe.Sizeof(UsageWords{}))

var _ [SlotSize]byte = [unsafe.Sizeof(SlotWords{})]byte{}

// A Record describes one entry of a log.
type Record struct {
	End    uint32 // end of its bytes in the data of its block
	Kind   uint8
	Stream uint8
	_      uint16
	At     int64 // unix nanoseconds
	Code   int64
}

const recordSize = int(unsafe.Sizeof(Record{}))

// BlockWords is the header of a block. Serial, First, Start and prev do not change while
// the block is in use.
type BlockWords struct {
	Serial uint64 // of the slot that the block belongs to
	First  uint64 // number of its first entry
	Start  uint64 // how many bytes of output the log had before
	prev   uint64 // the block before it in the log, plus 1; 0: none
	count  Word   // how many records are valid
}

// headRecords is how many records are before the data.
const headRecords = (blockHead - int(unsafe.Sizeof(BlockWords{}))) / recordSize

// ptr is the address of v for a conversion to another type of the layout.
func ptr[T any](v *T) unsafe.Pointer { return unsafe.Pointer(v) }

// at returns the value of the layout at an offset of mapped memory.
func at[T any](mem []byte, offset int64) *T {
	_ = mem[offset : offset+int64(unsafe.Sizeof(*new(T)))] // in bounds
	return (*T)(unsafe.Pointer(&mem[offset]))
}
