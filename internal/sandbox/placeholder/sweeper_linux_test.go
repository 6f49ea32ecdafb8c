package placeholder

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/filelock"
)

// When a ledger is closed while another one guards its placeholder, a sweeper removes the
// placeholder after that guard.
func TestSweeperOutlivesLedger(t *testing.T) {
	b := newFixture(t)
	other, err := Open(filepath.Join(t.TempDir(), "other"), nil)
	b.must(err)
	defer other.Close()
	l := b.open()
	h := b.hold(l, b.dir(".git"))
	guard := b.hold(other, Want{Path: b.path(".git"), Exists: true})
	h.Release()
	b.must(l.Close())
	b.there(".git")
	if err := l.StartSweeper("/no/such/program", nil); err == nil || !strings.Contains(err.Error(), "removes placeholders later") {
		t.Errorf("no sweeper is started: %v", err)
	}

	done := make(chan error, 1)
	go func() { done <- finish(context.Background(), b.registry, 0) }() // ends with the guard
	lock, err := sweeperLock(b.registry)
	b.must(err)
	defer lock.close()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) { // until it is at work
		alone, err := lock.lock(filelock.Shared)
		b.must(err)
		if !alone {
			break
		}
		filelock.Unlock(lock.fd)
		if time.Now().After(deadline) {
			t.Fatal("the sweeper does not begin")
		}
	}
	b.must(finish(context.Background(), b.registry, 0)) // a second one leaves it to the first
	b.there(".git")
	select {
	case err := <-done:
		t.Fatalf("the sweeper ended under the guard: %v", err)
	default:
	}
	guard.Release()
	b.must(<-done)
	b.there()
	b.clean()
}

// A placeholder that a retry leaves behind while the ledger is being closed is the sweeper's too.
func TestSweeperGetsWhatARetryLeaves(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.must(l.Close())
	b.must(l.StartSweeper("/no/such/program", nil)) // nothing is left
	l.retryLater("file")
	if err := l.StartSweeper("/no/such/program", nil); err == nil {
		t.Error("no sweeper is started")
	}
}

// A sweeper leaves alone what servers of the same user use, or keep for the next use, and
// ends when nothing is left for it, or when its time is over.
func TestSweeperKeepsToItsOwn(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.must(l.StartSweeper("/no/such/program", nil)) // nothing is left: none is started
	b.hold(l, b.dir(".codex")).Release()
	idle := list(t, b.registry)
	if len(idle) != 1 {
		t.Fatalf("registry: %q", idle)
	}
	used := b.hold(l, b.dir(".git"))
	b.must(finish(context.Background(), b.registry, 0))
	b.there(".git")
	if got := list(t, b.registry); len(got) != 2 {
		t.Errorf("registry: %q", got)
	}
	used.Release()

	other, err := Open(filepath.Join(t.TempDir(), "other"), nil)
	b.must(err)
	defer other.Close()
	h := b.hold(l, b.dir(".git"))
	guard := b.hold(other, Want{Path: b.path(".git"), Exists: true})
	h.Release()
	b.must(l.Close())
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(context.DeadlineExceeded)
	if err := finish(ctx, b.registry, 0); err != context.DeadlineExceeded {
		t.Errorf("after its time: %v", err)
	}
	b.there(".git")
	guard.Release()
	b.must(finish(context.Background(), b.registry, 0))
	b.there()
	b.clean()
	b.must(finish(context.Background(), b.registry+"-removed", 0)) // with its state directory all is over
}
