//go:build amd64 || arm64

package keep

import "golang.org/x/sys/unix"

const (
	// maxSlot bounds the numbers of slots, and with them the memory for an index: 4 MiB.
	maxSlot = 1 << 20
	// reserved descriptors are left free for sockets, process descriptors and files of the keeper itself.
	reserved = 64
)

// A table holds descriptors: some per slot, each with a number that the worker has chosen. The descriptors of a slot are
// a list, so that no operation searches the whole table.
type table struct {
	first   []int32 // the first entry of each slot, from Shared on; 0: none
	entries []entry // entries[0] is not used
	unused  int32   // the first unused entry; 0: none
	held    int     // descriptors
	limit   int     // of descriptors
}

type entry struct {
	slot, which, fd int32 // fd is -1 if the entry is unused
	next            int32
}

// hold adds a descriptor, which then belongs to the table. It returns false if there is no room for it.
func (t *table) hold(slot, which int32, fd int) bool {
	t.drop(slot, which)
	if slot < Shared || slot >= maxSlot || t.held >= t.limit {
		return false
	}
	for int(slot-Shared) >= len(t.first) {
		t.first = append(t.first, 0)
	}
	if len(t.entries) == 0 {
		t.entries = append(t.entries, entry{fd: -1})
	}
	at := t.unused
	if at != 0 {
		t.unused = t.entries[at].next
	} else {
		at = int32(len(t.entries))
		t.entries = append(t.entries, entry{})
	}
	t.entries[at] = entry{slot, which, int32(fd), t.first[slot-Shared]}
	t.first[slot-Shared] = at
	t.held++
	return true
}

// drop closes one descriptor of a slot, if the table has it.
func (t *table) drop(slot, which int32) {
	t.remove(slot, func(e *entry) bool { return e.which == which })
}

// free closes all descriptors of a slot.
func (t *table) free(slot int32) {
	t.remove(slot, func(*entry) bool { return true })
}

func (t *table) remove(slot int32, match func(*entry) bool) {
	if slot < Shared || int(slot-Shared) >= len(t.first) {
		return
	}
	for link := &t.first[slot-Shared]; *link != 0; {
		at := *link
		e := &t.entries[at]
		if !match(e) {
			link = &e.next
			continue
		}
		unix.Close(int(e.fd))
		*link = e.next
		e.fd, e.next, t.unused = -1, t.unused, at
		t.held--
	}
}
