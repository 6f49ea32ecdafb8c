package copy

import (
	"sync"
	"testing"
)

func TestJournalIsForMany(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	j := OpenJournal("a", "b")
	defer j.Close(false)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() { j.setSession("secret") })
	}
	workers.Wait()
	if j.session != "secret" {
		t.Errorf("session %q", j.session)
	}
}
