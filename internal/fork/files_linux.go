//go:build amd64 || arm64

package fork

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// slotsEach is how many descriptors a Starter reserves. A plain command takes four of them, a
	// sandbox nine to sixteen. A start with more copies the table of descriptors.
	slotsEach = 20

	// firstSlot is the lowest number that is reserved. It is behind the numbers that the files of
	// a command in slots get, so that no slot is overwritten before it has been passed on.
	firstSlot = slotsEach
)

// slots are low descriptor numbers that are kept occupied. The files of a command are copied to
// them before the clone. The child then leaves this program's table of descriptors with a copy of
// only those below the highest of these numbers, however many descriptors this program has.
type slots struct {
	numbers []int // empty: none could be reserved
	filler  int   // what a slot holds that is not in use; -1: none
}

func reserveSlots() slots {
	filler, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return slots{filler: -1}
	}
	s := slots{filler: filler}
	for range slotsEach {
		number, err := unix.FcntlInt(uintptr(filler), unix.F_DUPFD_CLOEXEC, firstSlot)
		if err != nil { // too many open files: then they are better used otherwise
			s.close()
			return slots{filler: -1}
		}
		s.numbers = append(s.numbers, number)
	}
	return s
}

func (s *slots) close() {
	for _, number := range s.numbers {
		unix.Close(number)
	}
	if s.filler >= 0 {
		unix.Close(s.filler)
	}
	s.numbers, s.filler = nil, -1
}

// A placement says where the child finds its descriptors.
type placement struct {
	sources []int   // for the numbers 0, 1, 2, …; no source is one of these numbers
	shared  bool    // the child shares the table of descriptors until it has left it
	bound   uintptr // it then keeps the descriptors below
	copies  []int   // to be closed after the start
}

// place puts files where the child can take them from.
func (s *slots) place(files []int, share bool) (placement, error) {
	if !share || len(files) > len(s.numbers) {
		return moveUp(files)
	}
	p := placement{sources: s.numbers[:len(files)], shared: true}
	for i, fd := range files {
		if err := dup(fd, p.sources[i]); err != nil {
			s.release(p)
			return placement{}, err
		}
	}
	p.bound = uintptr(slices.Max(p.sources) + 1)
	return p, nil
}

// moveUp copies the files whose numbers the child overwrites.
func moveUp(files []int) (p placement, err error) {
	p.sources = slices.Clone(files)
	for i, fd := range files {
		if fd >= len(files) {
			continue
		}
		if p.sources[i], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, len(files)); err != nil {
			for _, fd := range p.copies {
				unix.Close(fd)
			}
			return placement{}, err
		}
		p.copies = append(p.copies, p.sources[i])
	}
	return p, nil
}

// release undoes place: pipes must not stay open in a slot.
func (s *slots) release(p placement) {
	if p.shared {
		for _, number := range p.sources {
			dup(s.filler, number)
		}
	}
	for _, fd := range p.copies {
		unix.Close(fd)
	}
}

func dup(fd, number int) error {
	for {
		err := unix.Dup3(fd, number, unix.O_CLOEXEC)
		if err != syscall.EINTR {
			return err
		}
	}
}
