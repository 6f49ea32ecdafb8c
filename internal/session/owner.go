package session

import (
	"fmt"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/reexec"
)

// An Owner is the client that a session belongs to. The table's lock guards that of a session. To all other clients, except those with
// Rights.Admin, the session looks as if it did not exist.
type Owner struct {
	Principal string // see listen.Client

	// unknown means that the session was recorded by a version that knew no principals: the first client that resumes it, for
	// which it must know the secret id, becomes its owner. Until then the session belongs to Principal.
	unknown bool
}

// lostPrincipal owns the sessions whose owners are unknown because a part of the journal is lost. No client has this principal.
const lostPrincipal = "\x00"

// OwnedBy is the principal that owns the session now.
func (s *Session) OwnedBy() string {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return s.Principal
}

// ByPublicID finds a session that a client may use by the id that lists show.
func (t *Table) ByPublicID(id string, r Rights) (*Session, error) {
	return t.find(t.public, id, r)
}

// find finds a session that a client may use by one of its ids, and waits until it is restored. It does not wait for another session:
// the client could tell by the time that the session exists.
func (t *Table) find(byID map[string]*Session, id string, r Rights) (*Session, error) {
	s, err := t.lookUp(byID, id, r)
	if err == nil {
		s.await()
	}
	return s, err
}

func (t *Table) lookUp(byID map[string]*Session, id string, r Rights) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if aside, ok := t.aside[id]; ok && (r.Over(aside.Principal) || aside.unknown) {
		return nil, fmt.Errorf("session %s %w", id, ErrAside)
	}
	s := byID[id]
	if s != nil && s.unknown && id == s.ID {
		t.claimLocked(s, r.Principal)
	}
	if s == nil || !r.Over(s.Principal) {
		return nil, fmt.Errorf("%w %s", ErrUnknownSession, id)
	}
	return s, nil
}

// claimLocked makes a client the owner of a session whose owner is unknown.
func (t *Table) claimLocked(s *Session, principal string) {
	s.Owner = Owner{Principal: principal}
	var err error
	if s.ownerNote, err = t.config.Kept.recordPrincipal(s.Public, principal); err != nil {
		s.log.Warn("the owner of a session cannot be recorded: after the next crash of this server, it is the first client that resumes the session", "err", err)
	}
}

// recordPrincipal records to which principal a session belongs. A version that knows no principals would let all clients use the
// session, so it must not skip the note: it refuses to take over. Only if this program has just replaced such a version, which may have to go on, it may.
func (k *Kept) recordPrincipal(public, principal string) (*arena.Note, error) {
	var e reexec.Encoder
	e.Text(public)
	e.Text(principal)
	kind := notePrincipal
	if principal == "" || time.Now().Before(k.Probation) {
		kind |= arena.Skippable
	}
	return k.Arena.Journal().Append(kind, e)
}

// A recordedOwner is what recordPrincipal has recorded.
type recordedOwner struct {
	note      *arena.Note
	principal string
}

// visitPrincipal collects a note about a principal.
func (r *restoring) visitPrincipal(n *arena.Note, payload []byte) error {
	d := reexec.Decode(payload)
	public, principal := d.Text(), d.Text()
	if err := wellFormed(d, "principal"); err != nil {
		return err
	}
	if before, ok := r.owners[public]; ok {
		r.dead = append(r.dead, before.note)
	}
	r.owners[public] = recordedOwner{n, principal}
	return nil
}

// addOwners adds the principals to the recorded sessions.
func (r *restoring) addOwners() {
	for public, owner := range r.owners {
		if s := r.recorded[public]; s != nil {
			s.identity.Owner = Owner{Principal: owner.principal}
		} else {
			r.dead = append(r.dead, owner.note)
		}
	}
	for _, s := range r.recorded {
		if s.identity.unknown && r.damaged {
			s.identity.Principal = lostPrincipal
		}
	}
}
