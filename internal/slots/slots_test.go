package slots

import (
	"context"
	"errors"
	"testing"
)

func TestSlots(t *testing.T) {
	s := New(2)
	if s.Take(t.Context()) != nil || !s.TryTake() || s.TryTake() || len(s) != 2 {
		t.Fatalf("%d of %d slots are taken", len(s), cap(s))
	}
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := s.Take(ctx); !errors.Is(err, why) || len(s) != 2 {
		t.Errorf("%v, %d slots are taken", err, len(s))
	}
	s.Free()
	if !s.TryTake() {
		t.Error("a slot that was freed is not free")
	}
}
