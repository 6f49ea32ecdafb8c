//go:build linux && (amd64 || arm64)

package keep

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// docs/keeper.md has the table of messages as the code has it.
func TestDocumentedMessages(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| Message | From | Fields | Descriptors | Meaning |\n|---|---|---|---|---|\n")
	names := map[string]bool{}
	for _, m := range messages {
		if m.name == "" {
			continue
		}
		if names[m.name] || m.from != "worker" && m.from != "keeper" || m.means == "" {
			t.Errorf("%+v", m)
		}
		names[m.name] = true
		fields := strings.Join(m.fields, ", ")
		if m.repeat {
			fields += ", …"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", m.name, m.from, fields, m.fds, m.means)
	}
	page, err := os.ReadFile("../../docs/keeper.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), table.String()) {
		t.Errorf("docs/keeper.md should have this table:\n%s", table.String())
	}
}

// newPipe returns a descriptor for a table.
func newPipe(t *testing.T) int {
	t.Helper()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	unix.Close(pipe[1])
	return pipe[0]
}

func isOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

func TestTable(t *testing.T) { // not parallel: it looks at numbers of closed descriptors
	tab := &table{limit: 3}
	shared, first, second := newPipe(t), newPipe(t), newPipe(t)
	for i, h := range []Held{{Shared, 0, shared}, {5, 1, first}, {5, 2, second}} {
		if !tab.hold(h.Slot, h.Which, h.FD) {
			t.Fatalf("descriptor %d is refused", i)
		}
	}
	for _, slot := range []int32{7, maxSlot, Shared - 1} {
		if tab.hold(slot, 0, -1) {
			t.Errorf("slot %d is accepted", slot)
		}
	}
	replacement := newPipe(t)
	if !tab.hold(5, 1, replacement) || isOpen(first) || tab.held != 3 {
		t.Errorf("replaced: %+v", tab)
	}
	tab.drop(5, 9)
	tab.drop(9, 1)
	tab.free(9)
	if tab.held != 3 || !isOpen(shared) || !isOpen(second) || !isOpen(replacement) {
		t.Errorf("after what the table does not have: %+v", tab)
	}
	tab.drop(5, 2)
	if tab.held != 2 || isOpen(second) || !isOpen(replacement) {
		t.Errorf("dropped: %+v", tab)
	}
	tab.free(5)
	tab.free(Shared)
	if tab.held != 0 || isOpen(replacement) || isOpen(shared) {
		t.Errorf("freed: %+v", tab)
	}
	used := len(tab.entries)
	for i := range int32(3) {
		tab.hold(i, 0, newPipe(t))
	}
	if len(tab.entries) != used {
		t.Errorf("%d entries, and %d before: unused ones are not used again", len(tab.entries), used)
	}
	for i := range int32(3) {
		tab.free(i)
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	k := newKeeper()
	k.limit = 10
	for i, field := range k.fields() {
		*field = i + 1
	}
	for i := range 10 {
		k.hold(int32(i/2)+Shared, int32(i), 1000+i) // not open, and never closed
	}
	fd, err := k.save()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	same := newKeeper()
	if err := same.load(fd); err != nil {
		t.Fatal(err)
	}
	k.worker.given = 0 // all is given again
	for i, field := range same.fields() {
		if *field != *k.fields()[i] {
			t.Errorf("field %d is %d, not %d", i, *field, *k.fields()[i])
		}
	}
	if same.held != 10 {
		t.Errorf("%d descriptors", same.held)
	}

	// A state of an older version has fewer fields.
	var info unix.Stat_t
	unix.Fstat(fd, &info)
	words := make([]int64, info.Size/8)
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
	unix.Pread(fd, bytes, 0)
	for _, row := range []struct {
		name string
		make func() []int64
		want error
	}{
		{"fewer fields", func() []int64 {
			return append([]int64{stateMagic, stateVersion, 1, 0}, words[stateHeader])
		}, nil},
		{"empty", func() []int64 { return nil }, errState},
		{"foreign", func() []int64 { return []int64{1, 2, 3, 4, 5} }, errState},
		{"newer", func() []int64 { return []int64{stateMagic, stateVersion + 1, 0, 0} }, errState},
		{"truncated", func() []int64 { return words[:len(words)-1] }, errState},
		{"impossible counts", func() []int64 { return []int64{stateMagic, stateVersion, 1 << 62, -1 << 60} }, errState},
		{"impossible slot", func() []int64 { return []int64{stateMagic, stateVersion, 0, 1, maxSlot, 0, 1000} }, errState},
	} {
		t.Run(row.name, func(t *testing.T) {
			file, err := unix.MemfdCreate("state", unix.MFD_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(file)
			if content := row.make(); len(content) > 0 {
				unix.Write(file, unsafe.Slice((*byte)(unsafe.Pointer(&content[0])), 8*len(content)))
			}
			if err := newKeeper().load(file); !errors.Is(err, row.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// An execve that fails changes nothing.
func TestFailedExecve(t *testing.T) { // not parallel: it changes the limit of descriptors for a moment
	var before, after unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &before)
	k := newKeeper()
	var err error
	if k.program, err = unix.Open(os.DevNull, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(k.program)
	if errno := execute(k.program, -1, "tether", nil); errno != unix.EACCES {
		t.Errorf("%v", errno)
	}
	unix.Getrlimit(unix.RLIMIT_NOFILE, &after)
	if before.Max != after.Max || after.Cur < before.Cur {
		t.Errorf("limit of descriptors %+v, before %+v", after, before)
	}
}

// Messages cost the keeper no memory.
func TestMessagesAllocateNothing(t *testing.T) { // not parallel: it counts allocations
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(bell)
	k := newKeeper()
	k.bell, k.limit, k.worker = bell, 100, peer{pid: 1, pidfd: -1, socket: ends[0], given: -1}
	w, one := &packet{}, make([]byte, 8)
	one[0] = 1
	allocations := testing.AllocsPerRun(100, func() {
		for slot := range int32(10) {
			w.words[1], w.words[2], w.words[3], w.words[4] = slot, 0, slot, 1
			w.fds[0], w.fds[1] = int32(ends[1]), int32(ends[1])
			w.send(ends[1], msgHold, 4, 2)
			w.words[1], w.words[2] = slot, 0
			w.send(ends[1], msgDrop, 2, 0)
			w.words[1] = int32(os.Getpid())
			w.send(ends[1], msgStatus, 2, 0)
			w.words[1] = slot
			w.send(ends[1], msgFree, 1, 0)
		}
		unix.Write(bell, one)
		k.wait()
		k.step()
		for range 10 { // the answers to status
			w.receive(ends[1], 0)
		}
	})
	if allocations != 0 || k.held != 0 {
		t.Errorf("%v allocations, %d descriptors held", allocations, k.held)
	}
}

// This machine has all that the tests need.
func TestProbe(t *testing.T) {
	t.Parallel()
	if err := Probe(); err != nil {
		t.Error(err)
	}
}
