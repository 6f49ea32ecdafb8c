package schedule

import (
	"path"
	"strings"
)

// A Touch is a file or directory that a job depends on, and all that is below.
type Touch struct {
	Path   string // absolute
	Change bool   // the job changes something there; else it looks
}

// A gate makes jobs wait for earlier ones that touch the same files, if one of them
// changes something. The results are those of one-by-one execution, as far as paths
// can tell: links are not followed.
type gate struct {
	jobs []*visit // not done, in order of arrival
}

// A visit is a job that touches files, from its arrival until it is done.
type visit struct {
	touches []Touch
	earlier int      // jobs that it waits for
	later   []*visit // jobs that wait for it
	begin   func()   // when it waits for nobody any more; nil: its turn has not come
}

// enter notes a job.
func (g *gate) enter(touches []Touch) *visit {
	v := &visit{touches: make([]Touch, len(touches))}
	for i, t := range touches {
		v.touches[i] = Touch{path.Clean("/" + t.Path), t.Change}
	}
	for _, e := range g.jobs {
		if e.conflicts(v) {
			e.later = append(e.later, v)
			v.earlier++
		}
	}
	g.jobs = append(g.jobs, v)
	return v
}

// leave forgets a job that is done, and returns how to begin those that waited for
// it alone.
func (g *gate) leave(v *visit) (free []func()) {
	for i, e := range g.jobs {
		if e == v {
			g.jobs = append(g.jobs[:i], g.jobs[i+1:]...)
			break
		}
	}
	for _, l := range v.later {
		if l.earlier--; l.earlier == 0 && l.begin != nil {
			free = append(free, l.begin)
		}
	}
	return free
}

func (v *visit) conflicts(other *visit) bool {
	for _, a := range v.touches {
		for _, b := range other.touches {
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
