package schedule

import (
	"path"
	"slices"
	"strings"
)

// A PathUse is a file or directory that a job depends on, with everything below it.
type PathUse struct {
	Path   string // absolute
	Change bool   // the job changes something there; otherwise it only reads
}

// pathLocks make jobs wait for earlier jobs that use the same files, if one of the two changes something. They compare
// paths and do not follow links.
type pathLocks struct {
	held []*pathLock // oldest first
}

// A pathLock belongs to a job that uses files, from its arrival until it is done. The lock of a passing job is given up
// as soon as it waits for no earlier lock.
type pathLock struct {
	uses    []PathUse
	passing bool
	earlier int         // locks that it waits for
	later   []*pathLock // locks that wait for it
	begin   func()      // begins the job when earlier is 0; nil if the job still waits in its queue
}

// acquire notes the paths that a job uses. It returns nil for a passing job that waits for no earlier
// lock.
func (p *pathLocks) acquire(uses []PathUse, passing bool) *pathLock {
	l := &pathLock{uses: make([]PathUse, len(uses)), passing: passing}
	for i, u := range uses {
		l.uses[i] = PathUse{path.Clean("/" + u.Path), u.Change}
	}
	for _, e := range p.held {
		if e.conflicts(l) {
			e.later = append(e.later, l)
			l.earlier++
		}
	}
	if passing && l.earlier == 0 {
		return nil
	}
	p.held = append(p.held, l)
	return l
}

// release gives up a lock, and returns functions that begin the jobs that waited for no other
// lock.
func (p *pathLocks) release(l *pathLock) (free []func()) {
	if i := slices.Index(p.held, l); i >= 0 {
		p.held = slices.Delete(p.held, i, i+1)
	}
	for _, next := range l.later {
		if next.earlier--; next.earlier > 0 {
			continue
		}
		if next.begin != nil {
			free = append(free, next.begin)
		}
		if next.passing {
			free = append(free, p.release(next)...)
		}
	}
	return free
}

func (l *pathLock) conflicts(other *pathLock) bool {
	for _, a := range l.uses {
		for _, b := range other.uses {
			if (a.Change || b.Change) && (within(a.Path, b.Path) || within(b.Path, a.Path)) {
				return true
			}
		}
	}
	return false
}

// within reports whether a path is dir or lies below it. Both are clean.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}
