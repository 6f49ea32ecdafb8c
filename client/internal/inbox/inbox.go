// Package inbox has a bounded queue from a goroutine that must not wait, such as the
// reader of a connection, to a goroutine that may be slow.
package inbox

import (
	"sync"

	"github.com/tetherexec/tether/internal/wake"
)

// An Inbox is a queue of bounded length. Putting never waits. Any goroutine may put; one
// goroutine takes.
type Inbox[T any] struct {
	Wake  wake.Signal // gets a signal with each Put; the owner may send others
	limit int

	mu    sync.Mutex
	items []T
}

// New returns an empty inbox for up to limit items.
func New[T any](limit int) *Inbox[T] { return &Inbox[T]{Wake: wake.New(), limit: limit} }

// Put adds an item. It returns false if the inbox is full; then the item was not added.
func (b *Inbox[T]) Put(item T) bool {
	b.mu.Lock()
	room := len(b.items) < b.limit
	if room {
		b.items = append(b.items, item)
	}
	b.mu.Unlock()
	if room {
		b.Wake.Send()
	}
	return room
}

// PutNewest adds an item. If the inbox is full, the oldest item is dropped.
func (b *Inbox[T]) PutNewest(item T) {
	b.mu.Lock()
	if len(b.items) == b.limit {
		b.items = b.items[1:]
	}
	b.items = append(b.items, item)
	b.mu.Unlock()
	b.Wake.Send()
}

// Take returns the oldest item, or false if there is none at the moment.
func (b *Inbox[T]) Take() (item T, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.items) == 0 {
		return item, false
	}
	item = b.items[0]
	b.items[0] = *new(T) // so that the array does not keep the item alive
	if b.items = b.items[1:]; len(b.items) == 0 {
		b.items = nil
	}
	return item, true
}

// Clear drops all items and returns them.
func (b *Inbox[T]) Clear() (items []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, b.items = b.items, nil
	return items
}

// Drain calls f with each item until f returns false, or until done is closed and no item
// is left.
func (b *Inbox[T]) Drain(done <-chan struct{}, f func(T) (more bool)) {
	for over := false; ; {
		for item, ok := b.Take(); ok; item, ok = b.Take() {
			if !f(item) {
				return
			}
		}
		if over {
			return
		}
		select {
		case <-b.Wake:
		case <-done:
			over = true // take once more: an item may have come before done was closed
		}
	}
}
