//go:build amd64 || arm64

package proc

import (
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/account"
	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/outlog"
)

// A testKeeper records what it is told. The processes are children of this program.
type testKeeper struct {
	mu   sync.Mutex
	held map[int]map[Which]int // copies
}

func (k *testKeeper) Hold(slot int, held ...Held) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, h := range held {
		fd, err := unix.FcntlInt(uintptr(h.FD), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return err
		}
		if k.held == nil {
			k.held = map[int]map[Which]int{}
		}
		if k.held[slot] == nil {
			k.held[slot] = map[Which]int{}
		}
		k.held[slot][h.Which] = fd
	}
	return nil
}

func (k *testKeeper) Drop(slot int, which Which) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if fd, ok := k.held[slot][which]; ok {
		unix.Close(fd)
		delete(k.held[slot], which)
	}
}

func (k *testKeeper) Free(slot int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, fd := range k.held[slot] {
		unix.Close(fd)
	}
	delete(k.held, slot)
}

func (k *testKeeper) Status(pid int) (code int, used *account.Figures, ended bool) {
	var rusage unix.Rusage
	code, ended = exitCode(unix.P_PID, pid, unix.WNOHANG, &rusage)
	figures := account.OfRusage(&rusage)
	return code, &figures, ended
}
func (k *testKeeper) Reap(pid int) { reapPid(pid, unix.WNOHANG) }
func (k *testKeeper) Pid() int     { return os.Getpid() }

func newSlot(t *testing.T) *arena.Slot {
	t.Helper()
	a, err := arena.Create(arena.Config{Slots: 8, Blocks: 64, Journal: 1 << 20})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { a.Close() })
	slot, err := a.TakeSlot()
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// A slot whose command was never executed is told from one whose command runs.
func TestAdoptCommandThatWasNeverExecuted(t *testing.T) {
	for name, prepare := range map[string]func(*arena.Slot){
		"taken":      func(*arena.Slot) {},
		"not cloned": func(s *arena.Slot) { s.State.Store(slotStarting, pointStarting) },
		"gave up": func(s *arena.Slot) {
			s.Pid.Store(uint32(os.Getpid()), pointCloned)
			s.Failure.Store(2, pointCloned)
			s.State.Store(slotStarting, pointStarting)
		},
		"reaped": func(s *arena.Slot) {
			s.Pid.Store(1<<30, pointCloned)
			s.State.Store(slotStarting, pointStarting)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sup := newSupervisor(t, Config{Keeper: &testKeeper{}})
			slot := newSlot(t)
			prepare(slot)
			var group *cgroup
			if groups := sup.needHost().cgroups; groups != nil {
				var fd int
				var err error
				if group, fd, err = groups.take(&Enforced{}); err != nil {
					t.Fatal(err)
				}
				unix.Close(fd)
				slot.Cgroup.Store(uint64(group.number), pointDetail)
			}
			if p, err := sup.Adopt(t.Context(), Adoption{Spec: Spec{Slot: slot}, Sink: new(Capture)}); !errors.Is(err, ErrNeverStarted) {
				t.Errorf("%v, %v", p, err)
			}
			sup.Discard(slot)
			if slot.State.Load() != arena.SlotFree {
				t.Error("the slot is not free")
			}
			if group != nil {
				sup.tasks.Wait()
				if _, err := os.Stat(group.path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("its cgroup is left: %v", err)
				}
			}
		})
	}
}

// A process with a slot has the same life as one without, and leaves a free slot and no descriptors.
func TestProcessWithSlot(t *testing.T) {
	keeper := &testKeeper{}
	sup := newSupervisor(t, Config{Keeper: keeper})
	slot := newSlot(t)
	log := outlog.New(outlog.NewPool(t.TempDir(), 1<<20), outlog.Config{Slot: slot})
	p, err := sup.Start(t.Context(), Spec{Argv: []string{"sh", "-c", "cat; exit 4"}, Dir: "/", Env: os.Environ(), PipeStdin: true, Slot: slot}, log)
	if err != nil {
		t.Fatal(err)
	}
	ordinals := make(chan uint64, 1)
	p.WriteNoted([]byte("text"), func(n uint64) error { ordinals <- n; return nil }, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	if n := <-ordinals; n != 1 || slot.Input().Writes() != 1 {
		t.Errorf("ordinal %d of %d", n, slot.Input().Writes())
	}
	if err := p.CloseStdin(); err != nil {
		t.Error(err)
	}
	awaitDone(t, p)
	if code, _ := p.Exited(); code != 4 || slot.Exited.Load() != 1 || slot.ExitCode.Load() != 4 {
		t.Errorf("code %d, in the slot %d", code, slot.ExitCode.Load())
	}
	var out []byte
	cursor := log.Cursor(0)
	for cursor.Next(func(e outlog.Entry) { out = append(out, e.Data...) }) == nil {
	}
	if string(out) != "text" {
		t.Errorf("output %q", out)
	}
	log.End()
	freed := make(chan struct{})
	p.Release(func() { close(freed) })
	select {
	case <-freed:
	case <-time.After(testTimeout):
		t.Fatal("the slot is not freed")
	}
	keeper.Free(0) // the lock of the cgroups
	keeper.mu.Lock()
	defer keeper.mu.Unlock()
	if slot.State.Load() != arena.SlotFree || len(keeper.held) > 0 {
		t.Errorf("state %d, %d slots hold descriptors", slot.State.Load(), len(keeper.held))
	}
}
