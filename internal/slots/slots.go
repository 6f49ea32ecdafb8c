// Package slots has the counting semaphore for requests that end with a context.
package slots

import "context"

// Slots bound how many goroutines do something at a time. The capacity of the channel is the limit, its length is how many
// slots are taken. A select that waits for something else besides may send to the channel to take a slot.
type Slots chan struct{}

// New returns n free slots.
func New(n int) Slots { return make(Slots, n) }

// Take waits for a free slot. If the context ends first, Take returns its cause and no slot is taken.
func (s Slots) Take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// TryTake takes a slot if one is free.
func (s Slots) TryTake() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// Free frees a slot that was taken.
func (s Slots) Free() { <-s }
