package session

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
)

func TestDetachedSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		a := open(t, table, Options{TTL: time.Minute})
		for range 3 { // each detach restarts the time to live
			a.Detach()
			time.Sleep(time.Minute - time.Nanosecond)
			a, _ = resume(t, table, a.Session)
		}
		a.Detach()
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, err := table.Resume(t.Context(), a.Session.ID, Rights{}, newPeer()); !errors.Is(err, ErrUnknownSession) {
			t.Errorf("resume of an expired session: %v", err)
		}
		if n := len(table.Of(Rights{Principal: ""})); n != 0 {
			t.Errorf("%d sessions left", n)
		}
	})
}

// The clock decides whether a session has expired: its timer may be late.
func TestExpiryIsAuthoritativeAtTheResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		a := open(t, table, Options{})
		a.Detach()
		a.Session.mu.Lock()
		a.Session.holder.expiry.Stop()
		a.Session.mu.Unlock()
		time.Sleep(time.Hour)
		if _, err := table.Resume(t.Context(), a.Session.ID, Rights{}, newPeer()); !errors.Is(err, ErrUnknownSession) {
			t.Errorf("resume after the time to live: %v", err)
		}
	})
}

func TestRequestedTimeToLiveIsCapped(t *testing.T) {
	table := newTable(t, nil)
	defer table.Close()
	for asked, want := range map[time.Duration]time.Duration{0: time.Hour, time.Second: time.Second, 48 * time.Hour: 24 * time.Hour} {
		if got := open(t, table, Options{TTL: asked}).Session.TTL(); got != want {
			t.Errorf("asked for %v, got %v", asked, got)
		}
	}
}

func TestResumeOfALivingPeerIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		defer table.Close()
		a := open(t, table, Options{})
		if _, err := table.Resume(t.Context(), a.Session.ID, Rights{}, newPeer()); !errors.Is(err, ErrAttached) {
			t.Errorf("resume: %v", err)
		}
		if a.Context().Err() != nil {
			t.Error("the attached peer was evicted or detached")
		}
	})
}

func TestTakeoverTakesHalfASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		defer table.Close()
		a := open(t, table, Options{})
		old := a.peer.(*fakePeer)
		old.alive = false
		begun := time.Now()
		b, _ := resume(t, table, a.Session)
		if took := time.Since(begun); took != probeTime {
			t.Errorf("the takeover took %v", took)
		}
		if !errors.Is(old.evicted, ErrResumed) || a.Context().Err() == nil {
			t.Errorf("the old peer was not evicted: %v", old.evicted)
		}
		a.Detach() // after it has lost the session: has no effect
		if b.Context().Err() != nil || !a.Session.info().Attached {
			t.Error("the old peer's end detached the new one")
		}
	})
}

func TestQuietClientIsPushedUnreadProcesses(t *testing.T) {
	child := finished(t)
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		a := open(t, table, Options{})
		s := a.Session
		for _, id := range []string{"read", "acked", "unknown"} {
			p := adopt(s, id, child)
			for range 3 {
				p.Log.Append(outlog.Stdout, []byte("x"))
				p.Log.Cursor(p.Log.State().Next - 2).Next(func(outlog.Entry) {}) // reading makes each an entry of its own
			}
		}
		s.Ack("acked", 2)
		a.Detach()
		b, peer := resume(t, table, s)
		time.Sleep(time.Hour)
		b.Initialized()
		time.Sleep(resumeQuiet - time.Millisecond)
		if page := read(t, b, "read", 1); page.Next != 4 {
			t.Errorf("read up to %d", page.Next)
		}
		if f := <-peer.pushes; f.id != "read" || f.after != 3 {
			t.Errorf("the read process is pushed as %+v", f)
		}
		asked := time.Now()
		want := map[string]uint64{"acked": 2, "unknown": 0}
		for range 2 {
			f := <-peer.pushes
			if after, ok := want[f.id]; !ok || after != f.after || f.at.Sub(asked) != resumeQuiet {
				t.Errorf("pushed %+v, %v after the last read", f, f.at.Sub(asked))
			}
			delete(want, f.id)
		}
		synctest.Wait()
		if len(peer.pushes) > 0 {
			t.Errorf("pushed twice: %+v", <-peer.pushes)
		}
		if peer.locked { // a slow connection would block the whole session
			t.Error("the peer was called with the session's lock held")
		}
		b.Detach()
	})
}

// Events that were sent and then dropped from the log cannot be pushed again.
// Pushing begins with the oldest event that is kept.
func TestPushBeginsWithTheOldestKeptEvent(t *testing.T) {
	child := finished(t)
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		a := open(t, table, Options{})
		p := adopt(a.Session, "p", child)
		p.Log = outlog.New(table.config.Pool, outlog.Config{Retain: 1})
		for range 100 {
			p.Log.Append(outlog.Stdout, make([]byte, outlog.MaxEntry))
		}
		p.Log.Sent(100)
		first := p.Log.Stats().First
		if first == 1 {
			t.Fatal("no event was dropped")
		}
		a.Detach()
		b, peer := resume(t, table, a.Session)
		b.Initialized()
		if f := <-peer.pushes; f.after != first-1 {
			t.Errorf("pushed behind %d, the oldest event is %d", f.after, first)
		}
		b.Detach()
		p.Log.End()
	})
}

// A process whose start succeeds after resumeQuiet is pushed like the others.
func TestLateStartIsPushedAfterAQuietTime(t *testing.T) {
	child := finished(t)
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		a := open(t, table, Options{})
		a.Detach()
		b, peer := resume(t, table, a.Session)
		b.Initialized()
		time.Sleep(2 * resumeQuiet)
		startAnswered(a, adopt(a.Session, "late", child))
		answered := time.Now()
		if f := <-peer.pushes; f.id != "late" || f.at.Sub(answered) != resumeQuiet {
			t.Errorf("pushed %+v", f)
		}
		b.Detach()
	})
}

func TestClosedProcessIsForgotten(t *testing.T) {
	child := finished(t)
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		a := open(t, table, Options{})
		s := a.Session
		p := adopt(s, "p", child)
		p.Log.Exit(0)
		p.Log.Close()
		kept := func() bool {
			synctest.Wait()
			_, err := s.Find("p")
			return err == nil
		}
		time.Sleep(time.Hour)
		if !kept() {
			t.Fatal("forgotten before its close was sent")
		}
		p.Log.Sent(2)
		time.Sleep(keepClosed - keepResumed)
		a.Detach()
		time.Sleep(30 * time.Minute)
		b, _ := resume(t, table, s)
		time.Sleep(keepResumed - time.Nanosecond)
		if !kept() {
			t.Fatal("the clock went on while the session was detached")
		}
		time.Sleep(time.Nanosecond)
		if kept() {
			t.Fatal("still there 30 s after its close was sent")
		}
		b.Detach()
	})
}

// Retention begins with the close: a process that has exited, and whose output is
// still open, can be read for as long as its session lives.
func TestExitedOpenProcessOutlivesTheRetention(t *testing.T) {
	child := finished(t)
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		a := open(t, table, Options{})
		p := adopt(a.Session, "p", child)
		p.Log.Append(outlog.Stdout, []byte("x"))
		p.Log.Exit(3)
		p.Log.Sent(2)
		for range 3 {
			time.Sleep(10 * keepClosed)
			synctest.Wait()
			if page := read(t, a, "p", 0); !page.Exited || page.ExitCode != 3 || page.Closed || page.Next != 3 {
				t.Fatalf("read gives %+v", page)
			}
		}
		p.Log.Append(outlog.Stdout, []byte("late"))
		p.Log.Close()
		p.Log.Sent(4)
		time.Sleep(keepClosed - time.Nanosecond)
		if page := read(t, a, "p", 2); !page.Closed || page.Next != 5 {
			t.Errorf("read after the close gives %+v", page)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if _, err := a.Session.Find("p"); !errors.Is(err, ErrUnknownProcess) {
			t.Errorf("30 s after its close was sent: %v", err)
		}
		a.Detach()
	})
}

// A close that was sent to a peer that is gone unnoticed may not have arrived: the
// client that takes over can still read it.
func TestClosedProcessOfASilentClientIsKept(t *testing.T) {
	child := finished(t)
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		lost := &fakePeer{silent: true}
		a, err := table.Open(Options{}, lost)
		if err != nil {
			t.Fatal(err)
		}
		p := adopt(a.Session, "p", child)
		p.Log.Exit(0)
		p.Log.Close()
		p.Log.Sent(2)
		time.Sleep(time.Hour)
		b, _ := resume(t, table, a.Session)
		if lost.evicted == nil {
			t.Error("the silent peer was not evicted")
		}
		time.Sleep(keepResumed - time.Nanosecond)
		if page := read(t, b, "p", 0); !page.Closed {
			t.Errorf("read gives %+v", page)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if _, err := a.Session.Find("p"); !errors.Is(err, ErrUnknownProcess) {
			t.Errorf("the process was not forgotten though its client is alive: %v", err)
		}
		b.Detach()
	})
}

func TestAcknowledgingClientKeepsAClosedProcessUntilItAcknowledges(t *testing.T) {
	child := finished(t)
	synctest.Test(t, func(t *testing.T) {
		table := newTable(t, nil)
		a := open(t, table, Options{Acks: true})
		s := a.Session
		p := adopt(s, "p", child)
		p.Log.Append(outlog.Stdout, []byte("x"))
		p.Log.Exit(0)
		p.Log.Close()
		p.Log.Sent(3)
		if sent := p.Log.Stats().Released; sent != 0 {
			t.Errorf("events up to %d count as received", sent)
		}
		time.Sleep(10 * keepClosed)
		synctest.Wait()
		if _, err := s.Find("p"); err != nil {
			t.Fatal(err)
		}
		s.Ack("p", 1<<60) // more than there is
		if sent := p.Log.Stats().Released; sent != 3 || p.known != 3 {
			t.Errorf("acknowledged up to %d, known up to %d", sent, p.known)
		}
		time.Sleep(keepClosed)
		synctest.Wait()
		if _, err := s.Find("p"); !errors.Is(err, ErrUnknownProcess) {
			t.Errorf("find: %v", err)
		}
		a.Detach()
	})
}

func TestTerminateOfASeenEndMakesItKnown(t *testing.T) {
	table := newTable(t, nil)
	a := open(t, table, Options{})
	p := adopt(a.Session, "p", finished(t))
	p.Log.Exit(0)
	p.Log.Close()
	a.Session.Terminate("p", true)
	if p.known != 0 {
		t.Error("an end that was not sent counts as known")
	}
	p.Log.Sent(2)
	a.Session.Terminate("p", false)
	if p.known != 0 {
		t.Error("terminate by another client makes an end known")
	}
	a.Session.Terminate("p", true)
	if p.known != 2 {
		t.Errorf("known up to %d", p.known)
	}
	table.Close()
}

// Events after the first read of a resumed client are pushed at a limited pace, unless the client
// acknowledges. Events of processes that it has started since are not limited.
func TestPushAfterResumeIsPaced(t *testing.T) {
	table := newTable(t, nil)
	defer table.Close()
	child := finished(t)
	for _, acks := range []bool{false, true} {
		peer := newPeer()
		a, err := table.Open(Options{Acks: acks}, peer)
		if err != nil {
			t.Fatal(err)
		}
		startAnswered(a, adopt(a.Session, "p", child))
		if f := <-peer.pushes; f.paced {
			t.Errorf("acks %v: pushes to a new client are paced", acks)
		}
		a.Detach()
		b, peer := resume(t, table, a.Session)
		read(t, b, "p", 0)
		if f := <-peer.pushes; f.paced == acks {
			t.Errorf("acks %v: paced after a resume: %v", acks, f.paced)
		}
		startAnswered(b, adopt(b.Session, "new", child))
		if f := <-peer.pushes; f.id != "new" || f.paced {
			t.Errorf("acks %v: a new process is pushed as %+v", acks, f)
		}
	}
}
