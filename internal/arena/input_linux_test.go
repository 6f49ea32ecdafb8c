//go:build amd64 || arm64

package arena

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// newInput returns the input of a new slot, and a pipe to send it to.
func newInput(t *testing.T) (in Input, read, write int) {
	t.Helper()
	a, err := Create(Config{Slots: 4, Blocks: 4, Journal: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	s, err := a.TakeSlot()
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(ends[0]); unix.Close(ends[1]) })
	return s.Input(), ends[0], ends[1]
}

// drain reads all that is in a pipe.
func drain(t *testing.T, fd int) (all []byte) {
	t.Helper()
	var b [4096]byte
	for {
		n, err := unix.Read(fd, b[:])
		if errors.Is(err, unix.EAGAIN) {
			return all
		}
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		all = append(all, b[:n]...)
	}
}

// Input arrives once and in order, also when its range is used again and again, and while the pipe is full.
func TestInputArrivesOnce(t *testing.T) {
	in, read, write := newInput(t)
	var sent, got []byte
	for i := range 2000 {
		p := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 1+i%700)
		var ordinal uint64
		if err := in.Accept(p, func(n uint64) error { ordinal = n; return nil }); err != nil || ordinal != uint64(i+1) || in.Writes() != ordinal {
			t.Fatalf("write %d: %v, ordinal %d, %d writes", i, err, ordinal, in.Writes())
		}
		sent = append(sent, p...)
		for in.Pending() > 0 {
			if _, err := in.Send(write); errors.Is(err, unix.EAGAIN) {
				got = append(got, drain(t, read)...)
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if got = append(got, drain(t, read)...); !bytes.Equal(got, sent) {
		t.Errorf("%d bytes arrived, %d were sent", len(got), len(sent))
	}
}

// A write whose note fails is not accepted.
func TestInputWithoutNote(t *testing.T) {
	in, _, _ := newInput(t)
	failure := errors.New("no room")
	if err := in.Accept([]byte("text"), func(uint64) error { return failure }); err != failure || in.Pending() != 0 || in.Writes() != 0 {
		t.Errorf("%v, %d bytes, %d writes", err, in.Pending(), in.Writes())
	}
}

// If a process dies while it goes back to the beginning of the range, the next one continues there.
func TestInputAfterDeathInRestart(t *testing.T) {
	in, read, write := newInput(t)
	if err := in.Accept(bytes.Repeat([]byte("x"), inputReuse), nil); err != nil {
		t.Fatal(err)
	}
	for in.Pending() > 0 {
		if _, err := in.Send(write); err != nil {
			drain(t, read)
		}
	}
	drain(t, read)
	end, writes := in.pair()
	in.slot.arena.punch(int64(in.base()), roundUp(int64(end-in.base())))
	in.commit(in.base(), writes, pointInputReset) // and no further: the position is behind the end
	if err := in.Accept([]byte("next"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Send(write); err != nil {
		t.Fatal(err)
	}
	if got := drain(t, read); string(got) != "next" {
		t.Errorf("%q arrived", got)
	}
}
