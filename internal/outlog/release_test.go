package outlog

import "testing"

// Entries are released when they were sent or, for a client that acknowledges, when it
// has acknowledged them. The close is reported once, and not by Release.
func TestRelease(t *testing.T) {
	for _, acks := range []bool{false, true} {
		closed := 0
		l := New(NewPool(t.TempDir(), 1<<20), Config{Acks: acks, CloseDelivered: func() { closed++ }})
		defer l.End()
		l.Append(Stdout, []byte("output"))
		l.Exit(0)
		l.Close()
		step := func(what string, act func(uint64), seq, sent, released uint64, wantClosed int) {
			t.Helper()
			act(seq)
			if s := l.Stats(); s.Sent != sent || s.Released != released || closed != wantClosed {
				t.Errorf("acks %v, after %s %d: sent %d, released %d, close reported %d times", acks, what, seq, s.Sent, s.Released, closed)
			}
		}
		if acks {
			step("Sent", l.Sent, 3, 3, 0, 0)
			step("Sent", l.Sent, 1, 1, 0, 0) // on the next connection
			step("Ack", l.Ack, 2, 1, 2, 0)
			step("Release", l.Release, 9, 1, 3, 0)
			step("Ack", l.Ack, 3, 1, 3, 1)
			step("Ack", l.Ack, 3, 1, 3, 1)
		} else {
			step("Ack", l.Ack, 3, 0, 0, 0)
			step("Sent", l.Sent, 2, 2, 2, 0)
			step("Release", l.Release, 9, 2, 3, 0)
			step("Sent", l.Sent, 9, 3, 3, 1)
			step("Sent", l.Sent, 1, 1, 3, 1)
		}
	}
}
