//go:build amd64 || arm64

package session

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/launch"
	"github.com/tetherexec/tether/internal/outlog"
)

func newArena(t *testing.T) *arena.Arena {
	t.Helper()
	a, err := arena.Create(arena.Config{Slots: 8, Blocks: 8, Journal: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// keptTable returns a table that records its sessions in an arena. Unlike those of other tables, its sessions outlive the test, as those of a
// program that dies outlive it.
func keptTable(t *testing.T, k Kept) *Table {
	t.Helper()
	return NewTable(Config{
		Terms: Terms{TTL: time.Hour, MaxTTL: time.Hour}, Launch: launch.Config{Procs: newSupervisor(t)},
		Pool: outlog.NewPool(t.TempDir(), 1<<20), Log: slog.New(slog.DiscardHandler), Kept: &k,
	})
}

// restored is a table of the next program.
func restored(t *testing.T, a *arena.Arena) *Table {
	t.Helper()
	table := keptTable(t, Kept{Arena: a})
	if err := table.Restore(Descriptors{}, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.restoring.Wait)
	return table
}

// sees describes what a principal sees of a session: whether it is listed, found by its public id, and resumed.
func sees(t *testing.T, table *Table, s *Session, principal string) string {
	t.Helper()
	var seen []string
	for _, info := range table.List(Rights{Principal: principal}) {
		if info.SessionID == s.Public {
			seen = append(seen, "listed")
		}
	}
	look := func(word string, err error) {
		switch {
		case err == nil:
			seen = append(seen, word)
		case !errors.Is(err, ErrUnknownSession):
			t.Errorf("%q: %v", principal, err)
		}
	}
	_, err := table.ByPublicID(s.Public, Rights{Principal: principal})
	look("found", err)
	a, err := table.Resume(t.Context(), s.ID, Rights{Principal: principal}, newPeer())
	look("resumed", err)
	if err == nil {
		a.Detach()
	}
	return strings.Join(seen, " ")
}

const all = "listed found resumed"

// The next program knows which client each session belongs to.
func TestOwnersAreRestored(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	table := keptTable(t, Kept{Arena: a})
	alice, nobody := open(t, table, Options{Rights: Rights{Principal: "alice"}}).Session, open(t, table, Options{}).Session
	ended := open(t, table, Options{Rights: Rights{Principal: "alice"}}).Session
	ended.End()
	for range 2 {
		table = restored(t, a)
		for principal, want := range map[string][2]string{"alice": {all, ""}, "": {"", all}, "bob": {"", ""}, "alic": {"", ""}} {
			if got := [2]string{sees(t, table, alice, principal), sees(t, table, nobody, principal)}; got != want {
				t.Errorf("%q sees %q, want %q", principal, got, want)
			}
		}
		if sessions, running := table.Load(); sessions != 2 || running != 0 {
			t.Errorf("%d sessions, %d processes", sessions, running)
		}
	}
}

// Clients that may only look resume the sessions of such clients and no others, also those that an earlier program has recorded.
func TestReadOnlySessions(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	table := keptTable(t, Kept{Arena: a})
	looks, works := Rights{Principal: "alice", ReadOnly: true}, Rights{Principal: "alice"}
	watcher, worker := open(t, table, Options{Rights: looks}).Session, open(t, table, Options{Rights: works}).Session
	for range 2 {
		table = restored(t, a)
		for _, row := range []struct {
			s      *Session
			rights Rights
			want   error
		}{
			{watcher, looks, nil}, {worker, works, nil}, {watcher, works, ErrUnknownSession}, {worker, looks, ErrUnknownSession},
			{watcher, Rights{ReadOnly: true}, ErrUnknownSession},
		} {
			a, err := table.Resume(t.Context(), row.s.ID, row.rights, newPeer())
			if !errors.Is(err, row.want) {
				t.Errorf("a client with %+v resumes a session with %+v: %v", row.rights, row.s.ReadOnly, err)
			}
			if err == nil {
				a.Detach()
			}
		}
	}
}

// A program that knows no principals has recorded a session: the first client that resumes it becomes its owner. Until then all clients without
// principal see it, as before.
func TestSessionOfVersionWithoutPrincipals(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	old := keptTable(t, Kept{Arena: a})
	s := open(t, old, Options{}).Session
	a.Journal().Drop(s.ownerNote) // such a program does not write it
	if kinds := journalKinds(t, a); !slices.Equal(kinds, []arena.NoteKind{noteOpened}) {
		t.Fatalf("notes of kinds %v", kinds)
	}

	table := restored(t, a)
	if _, err := table.ByPublicID(s.Public, Rights{Principal: "alice"}); !errors.Is(err, ErrUnknownSession) || len(table.Of(Rights{Principal: "alice"})) != 0 || len(table.Of(Rights{Principal: ""})) != 1 {
		t.Errorf("found by a public id: %v", err)
	}
	for range 2 {
		if got := sees(t, table, s, "alice"); !strings.HasSuffix(got, "resumed") {
			t.Errorf("its client sees %q", got)
		}
		for _, principal := range []string{"", "bob"} {
			if got := sees(t, table, s, principal); got != "" {
				t.Errorf("%q sees %q", principal, got)
			}
		}
		table = restored(t, a) // the owner is recorded
	}
	if got := sees(t, table, s, "alice"); got != all {
		t.Errorf("its owner sees %q", got)
	}
}

// A program that knows no principals must not take over a session that belongs to one. It may skip the note while it may have to go on because its
// successor fails, and if all its clients may use the session anyway.
func TestVersionWithoutPrincipalsReadsJournal(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, principal string
		probation       time.Duration
		want            error
	}{
		{"owned", "alice", -time.Second, arena.ErrNewer},
		{"owned, after an upgrade", "alice", time.Hour, nil},
		{"not owned", "", -time.Second, nil},
	} {
		a := newArena(t)
		s := open(t, keptTable(t, Kept{Arena: a, Probation: time.Now().Add(row.probation)}), Options{Rights: Rights{Principal: row.principal}}).Session
		found := false
		err := a.Journal().Replay(func(n *arena.Note, kind arena.NoteKind, payload []byte) error { // as in versions without principals
			switch {
			case kind == noteOpened:
				r, err := decodeOpened(n, payload)
				found = err == nil && r.identity.ID == s.ID
				return err
			case kind&^arena.Skippable <= lastKind:
				return arena.ErrUnknownKind
			}
			return nil
		})
		if !errors.Is(err, row.want) || found != (row.want == nil) {
			t.Errorf("%s: %v, session found: %v", row.name, err, found)
		}
		if err := CheckJournal(a); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		if got := sees(t, restored(t, a), s, row.principal); got != all {
			t.Errorf("%s: its owner sees %q", row.name, got)
		}
	}
}

// If the note about a principal is lost, no client sees the session. Only a client that knows its secret id can resume it.
func TestLostOwner(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	s := open(t, keptTable(t, Kept{Arena: a}), Options{Rights: Rights{Principal: "alice"}}).Session
	a.Journal().Drop(s.ownerNote)
	if _, err := a.Journal().Append(notePrincipal, []byte{200}); err != nil {
		t.Fatal(err)
	}
	table := restored(t, a)
	for _, principal := range []string{"", "bob"} {
		if _, err := table.ByPublicID(s.Public, Rights{Principal: principal}); !errors.Is(err, ErrUnknownSession) || len(table.Of(Rights{Principal: principal})) != 0 {
			t.Errorf("%q finds it: %v", principal, err)
		}
	}
	admin := Rights{Principal: "root", Admin: true}
	if _, err := table.ByPublicID(s.Public, admin); err != nil {
		t.Errorf("an administrator does not find it: %v", err)
	}
	if list := table.List(admin); len(list) != 1 || list[0].Principal != "" {
		t.Errorf("an administrator is told %+v", list)
	}
	if got := sees(t, table, s, "alice"); got != "resumed" {
		t.Errorf("its client sees %q", got)
	}
}

// A session that was set aside is unknown to other clients, and no client waits for the sessions of others to be restored.
func TestOtherSessionsLookUnknown(t *testing.T) {
	t.Parallel()
	table := newTable(t, nil)
	defer table.Close()
	s := open(t, table, Options{Rights: Rights{Principal: "alice"}}).Session
	s.restored = func() { t.Error("a client waits for a session of another one") }
	table.aside = map[string]Owner{"public": {Principal: "alice"}, "secret": {Principal: "alice"}, "old": {unknown: true}}
	for _, id := range []string{"public", "secret", s.ID, s.Public, "old", "missing"} {
		for _, find := range []func() error{
			func() error { _, err := table.ByPublicID(id, Rights{Principal: "bob"}); return err },
			func() error { _, err := table.Resume(t.Context(), id, Rights{Principal: "bob"}, newPeer()); return err },
			func() error {
				_, err := table.Resume(t.Context(), id, Rights{Principal: "bob", Admin: true}, newPeer())
				return err
			},
		} {
			want := "unknown session id " + id
			if id == "old" {
				want = "session old " + ErrAside.Error()
			}
			if err := find(); err == nil || err.Error() != want {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	if n := len(table.Of(Rights{Principal: "bob"})) + len(table.List(Rights{Principal: "bob"})); n != 0 {
		t.Errorf("%d sessions are listed", n)
	}
	if _, err := table.ByPublicID("public", Rights{Principal: "alice"}); !errors.Is(err, ErrAside) {
		t.Errorf("to its owner: %v", err)
	}
	s.restored = nil
}

func journalKinds(t *testing.T, a *arena.Arena) (kinds []arena.NoteKind) {
	t.Helper()
	err := a.Journal().Replay(func(_ *arena.Note, kind arena.NoteKind, _ []byte) error {
		kinds = append(kinds, kind)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kinds
}

// Nothing about a session stays in the journal when it has ended.
func TestOwnersAreForgotten(t *testing.T) {
	t.Parallel()
	a := newArena(t)
	open(t, keptTable(t, Kept{Arena: a}), Options{Rights: Rights{Principal: "alice"}}).Session.End()
	if kinds := journalKinds(t, a); len(kinds) > 0 {
		t.Errorf("notes of kinds %v", kinds)
	}
	// A program that dies between the two notes about a session leaves the first one.
	k := Kept{Arena: a}
	if _, err := k.recordPrincipal("never-opened", "alice"); err != nil {
		t.Fatal(err)
	}
	if restored(t, a); len(journalKinds(t, a)) > 0 {
		t.Errorf("notes of kinds %v", journalKinds(t, a))
	}
}
