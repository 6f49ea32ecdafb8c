package session

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/crash"
)

// A program can die of what it restores: of an entry of the journal, of a log, of a process in a state that it does
// not expect. The next program dies of it, too. So a program that begins to restore counts, and one that follows a program which
// has not completed it restores one session after the other, and records which one it is at. A session that
// several programs in a row have died of is set aside: no program of this version touches it, and the
// others go on.
const (
	// carefulAttempts is how many programs must have died while they restored before the next one is careful.
	carefulAttempts = 1
	// carefulDeaths is how many programs in a row must have died soon after their start, for whatever reason, before
	// the next one is careful, and slow: what it dies of may need time to show.
	carefulDeaths = 6
	// guiltyTimes is how many careful programs in a row must have died of a session. Programs can also be killed from outside at
	// such a moment.
	guiltyTimes = 3

	// settleTime is how long a careful program waits after each session: processes go on by themselves. A slow one waits
	// for slowTime, but for all sessions together no longer than slowTotal.
	settleTime = 2 * time.Millisecond
	slowTime   = 100 * time.Millisecond
	slowTotal  = 5 * time.Second
)

var (
	pointAttempt   = crash.NewPoint("session.attempt")
	pointSuspect   = crash.NewPoint("session.suspect")
	pointRestoring = crash.NewPoint("session.restoring") // for tests: a process of which programs die
)

// A suspicion finds the session that programs die of.
type suspicion struct {
	words   *arena.Restoring
	careful bool
	slow    bool
	guilty  uint64 // key of the session; 0: none
}

// strays is the key of what belongs to no session.
const strays = 1

// suspectKey is a number for a session.
func suspectKey(s *Session) uint64 {
	if s == nil {
		return strays
	}
	return publicKey(s.Public)
}

func publicKey(public string) uint64 {
	h := sha256.Sum256([]byte(public))
	return max(binary.LittleEndian.Uint64(h[:]), strays+1)
}

// begin counts this program, and finds out what the one before has died of.
func (c *suspicion) begin(a *arena.Arena, deaths int) {
	c.words = a.Restoring()
	w := c.words
	attempts := w.Attempts.Load()
	w.Attempts.Store(attempts+1, pointAttempt)
	if suspect := w.Suspect.Load(); suspect != 0 {
		times := uint64(1)
		if w.Accused.Load() == suspect {
			times += w.Times.Load()
		}
		w.Times.Store(times, pointSuspect)
		w.Accused.Store(suspect, pointSuspect)
		w.Suspect.Store(0, pointSuspect)
	}
	if w.Times.Load() >= guiltyTimes {
		c.guilty = w.Accused.Load()
	}
	c.slow = deaths >= carefulDeaths
	c.careful = c.slow || attempts >= carefulAttempts
}

// acquit forgets what programs have died of.
func (c *suspicion) acquit() {
	if c.words.Accused.Load() != 0 {
		c.words.Times.Store(0, pointSuspect)
		c.words.Accused.Store(0, pointSuspect)
	}
}

// end notes that everything is restored.
func (c *suspicion) end() {
	c.acquit()
	c.words.Attempts.Store(0, pointAttempt)
}

// pause is how long a careful program waits after each of n sessions.
func (c *suspicion) pause(n int) time.Duration {
	if !c.slow {
		return settleTime
	}
	return min(slowTime, slowTotal/time.Duration(n+1))
}

// setAside sets aside the session that programs have died of, and finds those that were set aside before. If a part
// of the journal is lost, what belongs to no session is left alone: its session may be in that part.
func (r *restoring) setAside() error {
	k, log := r.table.config.Kept, r.table.config.Log
	if err := k.Arena.Journal().Damage(); err != nil {
		log.Error("a part of the journal of sessions is lost", "err", err)
		r.damaged = true
	}
	for _, a := range r.asides {
		if a.program == k.Program {
			r.aside[a.public] = true
		} else {
			r.dead = append(r.dead, a.note) // this program may be a better one
		}
	}
	var found []string
	if r.damaged || r.suspicion.guilty == strays {
		found = append(found, "")
	}
	for public := range r.recorded {
		if publicKey(public) == r.suspicion.guilty {
			found = append(found, public)
		}
	}
	for _, public := range found {
		if r.aside[public] {
			continue
		}
		if err := k.recordAside(public); err != nil {
			return err
		}
		r.aside[public] = true
		if public == "" {
			log.Error("processes whose sessions are not known are left alone: they run until the server ends")
			continue
		}
		log.Error("a session is set aside, because the server has crashed each time it took it over: its commands run until the server ends, or another version of it takes them over",
			"session", public, "crashes", guiltyTimes)
	}
	if r.suspicion.guilty != 0 {
		r.suspicion.acquit()
	}
	return nil
}

// restoreOneByOne is restoreAll after programs have died of something that they restored.
func (r *restoring) restoreOneByOne() {
	pause := r.suspicion.pause(len(r.sessions))
	one := func(s *Session, restore func()) {
		r.suspicion.words.Suspect.Store(suspectKey(s), pointSuspect)
		restore()
		time.Sleep(pause)
		r.suspicion.words.Suspect.Store(0, pointSuspect)
	}
	one(nil, func() { r.restore(nil) })
	for _, s := range r.sessions {
		one(s, s.restored)
	}
	r.suspicion.end()
}
