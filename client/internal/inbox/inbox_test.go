package inbox

import (
	"slices"
	"testing"
)

func taken(b *Inbox[int]) (items []int) {
	for {
		item, ok := b.Take()
		if !ok {
			return items
		}
		items = append(items, item)
	}
}

func TestPutRefusesWhenFull(t *testing.T) {
	b := New[int](2)
	for i, want := range []bool{true, true, false} {
		if b.Put(i) != want {
			t.Errorf("Put(%d) is not %t", i, want)
		}
	}
	if got := taken(b); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("took %v", got)
	}
	if !b.Put(3) {
		t.Error("there is no room after all items were taken")
	}
}

func TestPutNewestDropsTheOldest(t *testing.T) {
	b := New[int](2)
	for i := range 5 {
		b.PutNewest(i)
	}
	if got := taken(b); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("took %v", got)
	}
}

// Several Puts before the goroutine receives are one signal.
func TestWake(t *testing.T) {
	b := New[int](2)
	b.Put(1)
	b.Put(2)
	<-b.Wake
	select {
	case <-b.Wake:
		t.Error("woken twice")
	default:
	}
	if got := b.Clear(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("cleared %v", got)
	}
	b.Wake.Send()
	<-b.Wake
}

// Drain takes the items that were put before done was closed, and returns when f returns false.
func TestDrain(t *testing.T) {
	b := New[int](9)
	var got []int
	take := func(item int) bool {
		got = append(got, item)
		return item != 7
	}
	done := make(chan struct{})
	b.Put(1)
	b.Put(2)
	close(done)
	b.Drain(done, take)
	b.Put(7)
	b.Put(8)
	b.Drain(nil, take)
	if !slices.Equal(got, []int{1, 2, 7}) {
		t.Errorf("drained %v", got)
	}
}
