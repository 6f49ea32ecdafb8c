package unifiedexec

import (
	"cmp"
	"slices"
)

// A candidate is a session that might be closed to make room.
type candidate struct {
	id     int
	used   uint64 // larger: used more recently
	exited bool
	locked bool // a call is using it
}

// chooseVictim returns the session to close, or false if no session can be closed. It is the
// least recently used session that has exited. If no session has exited, it is the least recently
// used one. The most recently used sessions, and sessions that a call is using, are never
// closed. If an exited session is in use at the moment, no running session is closed instead.
func chooseVictim(all []candidate) (int, bool) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.used, b.used) })
	old := all[:max(0, len(all)-protected)]
	hasExited := slices.ContainsFunc(old, func(c candidate) bool { return c.exited })
	for _, c := range old {
		if !c.locked && c.exited == hasExited {
			return c.id, true
		}
	}
	return 0, false
}

// pruneLocked takes a session out of the table if that is full. The session is
// returned locked; the caller ends it. The caller has m.mu.
func (m *Manager) pruneLocked() *session {
	if len(m.sessions) < maxSessions {
		return nil
	}
	var all []candidate
	for id, s := range m.sessions {
		all = append(all, candidate{id, s.used, s.current().hasExited(), s.isLocked()})
	}
	for {
		id, found := chooseVictim(all)
		if !found {
			return nil
		}
		victim := m.sessions[id]
		if !victim.tryLock() { // a call has begun to use it
			i := slices.IndexFunc(all, func(c candidate) bool { return c.id == id })
			all[i].locked = true
			continue
		}
		delete(m.sessions, id)
		if len(m.pruned) == maxPruned {
			m.pruned = m.pruned[1:]
		}
		m.pruned = append(m.pruned, id)
		return victim
	}
}

// wasPruned reports whether a session was closed to make room. The caller has m.mu.
func (m *Manager) wasPruned(id int) bool { return slices.Contains(m.pruned, id) }

func sortSessions(infos []SessionInfo) {
	slices.SortFunc(infos, func(a, b SessionInfo) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
}
