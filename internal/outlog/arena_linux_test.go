//go:build amd64 || arm64

package outlog

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/arena"
)

// A testArena is the memory of the logs of a test. A nil one stands for the heap.
type testArena struct {
	t      failer
	arena  *arena.Arena
	spools map[*arena.Slot]*os.File // as a keeper would hold them
}

func newTestArena(t failer) *testArena {
	a, err := arena.Create(arena.Config{Slots: 16, Blocks: 64, Journal: 64 << 10})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return &testArena{t: t, arena: a, spools: map[*arena.Slot]*os.File{}}
}

// config adds a new slot to a configuration.
func (a *testArena) config(c Config) Config {
	if a == nil {
		return c
	}
	slot, err := a.arena.TakeSlot()
	if err != nil {
		a.t.Fatalf("%v", err)
	}
	return a.inSlot(c, slot)
}

func (a *testArena) inSlot(c Config, slot *arena.Slot) Config {
	c.Slot = slot
	c.HoldSpool = func(f *os.File) (err error) {
		a.spools[slot], err = duplicate(f)
		return err
	}
	return c
}

func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	return os.NewFile(uintptr(fd), f.Name()), err
}

// reopen opens all logs again, as another process would.
func (a *testArena) reopen(pool *Pool, logs []*model) {
	file, err := duplicate(a.arena.File())
	if err != nil {
		a.t.Fatalf("%v", err)
	}
	next, err := arena.Open(file)
	if err != nil {
		a.t.Fatalf("%v", err)
	}
	spools := a.spools
	a.spools = map[*arena.Slot]*os.File{}
	for i, m := range logs {
		var spool *os.File
		if held := spools[m.config.Slot]; held != nil {
			if spool, err = duplicate(held); err != nil {
				a.t.Fatalf("%v", err)
			}
			a.spools[next.Slots()[i]] = held
		}
		m.reopen(pool, a.inSlot(m.config, next.Slots()[i]), spool)
	}
	a.arena.Close()
	a.arena = next
}

func (m *model) reopen(pool *Pool, c Config, spool *os.File) {
	before, state := m.log.Stats(), m.log.State()
	before.LastEntryTime = before.LastEntryTime.Round(0)
	if old := m.log.overflow.spool; old != nil {
		old.close()
	}
	log, _, err := Reopen(pool, c, spool)
	if err != nil {
		m.t.Fatalf("%v", err)
	}
	after := log.Stats()
	after.LastEntryTime = before.LastEntryTime // that of an entry to which output was added is the first
	if after != before || log.State() != state {
		m.t.Fatalf("was %+v and is %+v", before, after)
	}
	m.log, m.config, m.cut = log, c, false
	for _, c := range append(m.observers[:], m.client) {
		*c = *log.Cursor(c.Seq())
	}
	for i := range m.writers {
		m.writers[i].log = log
	}
}

// checkEmpty checks that no block is in use.
func (a *testArena) checkEmpty() {
	if a == nil {
		return
	}
	if _, used := a.arena.FreeMemory(); used != 0 {
		a.t.Errorf("%d blocks are in use", used)
	}
}

func (a *testArena) close() {
	for _, f := range a.spools {
		f.Close()
	}
	a.arena.Close()
}
