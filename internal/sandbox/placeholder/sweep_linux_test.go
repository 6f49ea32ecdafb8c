package placeholder

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/filelock"
	"github.com/tetherexec/tether/internal/tethertest/hang"
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
	if _, err := l.StartSweeper("/no/such/program", nil); err == nil || !strings.Contains(err.Error(), "removes placeholders later") {
		t.Errorf("no sweeper is started: %v", err)
	}

	done := make(chan error, 1)
	// It ends with the guard. It tries again if it meets the lock of this test below.
	go func() { done <- sweepUntilFree(context.Background(), b.registry, time.Minute) }()
	lock, err := sweeperLock(b.registry)
	b.must(err)
	defer lock.close()
	for deadline := time.Now().Add(hang.Limit); ; time.Sleep(time.Millisecond) { // until it has the lock
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
	b.must(sweepUntilFree(context.Background(), b.registry, 0)) // a second sweeper leaves the work to the first
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

// If a retry leaves a placeholder while the ledger is being closed, the sweeper removes it.
func TestSweeperRemovesPlaceholdersLeftByRetry(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	b.must(l.Close())
	_, err := l.StartSweeper("/no/such/program", nil)
	b.must(err) // nothing is left
	l.retryLater("file")
	if _, err := l.StartSweeper("/no/such/program", nil); err == nil {
		t.Error("no sweeper is started")
	}
}

// A sweeper ignores placeholders that servers of the same user use, and files that they
// keep for the next use. It ends when nothing is left, or when its time is over.
func TestSweeperIgnoresPlaceholdersInUse(t *testing.T) {
	b := newFixture(t)
	l := b.open()
	_, err := l.StartSweeper("/no/such/program", nil)
	b.must(err) // nothing is left: none is started
	b.hold(l, b.dir(".codex")).Release()
	idle := list(t, b.registry)
	if len(idle) != 1 {
		t.Fatalf("registry: %q", idle)
	}
	used := b.hold(l, b.dir(".git"))
	b.must(sweepUntilFree(context.Background(), b.registry, 0))
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
	if err := sweepUntilFree(ctx, b.registry, 0); err != context.DeadlineExceeded {
		t.Errorf("after its time: %v", err)
	}
	b.there(".git")
	guard.Release()
	b.must(sweepUntilFree(context.Background(), b.registry, 0))
	b.there()
	b.clean()
	b.must(sweepUntilFree(context.Background(), b.registry+"-removed", 0)) // the state directory was removed
}
