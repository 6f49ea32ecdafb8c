package helper

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// walker walks until it is cancelled.
type walker struct{ files.Files }

func (walker) Walk(ctx context.Context, _ string, _ wire.WalkOptions) (wire.WalkResult, error) {
	<-ctx.Done()
	return wire.WalkResult{}, unix.ECANCELED
}

// Receivers may overtake one another: a request that is cancelled before it began
// still ends. Cancellations of answered requests are forgotten.
func TestEarlyCancel(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	h := newHelper(ends[0])
	h.files = walker{}
	h.cancel(7)
	h.perform(&Request{ID: 7, Op: OpWalk, Path: "/"}, nil)
	b := make([]byte, MaxMessage)
	n, err := unix.Read(ends[1], b)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := DecodeAnswer(b[:n]); err != nil || answer.ID != 7 || answer.Err == nil {
		t.Errorf("%+v, %v", answer, err)
	}
	for id := range uint64(10 * AtOnce) {
		h.cancel(id)
	}
	if len(h.early) > AtOnce || len(h.running) > 0 {
		t.Errorf("%d ends are remembered, %d requests run", len(h.early), len(h.running))
	}
}
