package proc

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"golang.org/x/sys/unix"
)

func (c *child) killKind() KillKind {
	group := cgroupOf(c.tree)
	switch {
	case group == nil:
		return KillFound
	case unix.Access(group.file("cgroup.kill"), unix.W_OK) != nil:
		return KillMembers
	}
	return KillByKernel
}

// newSurvivor describes a process; ok is false if it has ended.
func newSurvivor(pid int) (s Survivor, ok bool) {
	s = Survivor{PID: pid}
	return s, s.refresh()
}

// refresh brings the description up to date, and reports whether the process is still there.
func (s *Survivor) refresh() bool {
	entry, ok := readProcess(s.PID)
	if !ok || entry.dead || s.started != "" && s.started != entry.started {
		return false
	}
	s.started = entry.started
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.PID))
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if err != nil || open < 0 || end < open || end+2 >= len(stat) {
		return false
	}
	s.Name, s.State = string(bytes.ToValidUTF8(stat[open+1:end], []byte("?"))), stat[end+2]
	return true
}

// survivors lists the members, also in groups that they have made below this one.
func (g *cgroup) survivors() (left []Survivor) {
	if g.empty() {
		return nil
	}
	_ = filepath.WalkDir(g.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // a group that has just been removed has no members
		}
		for _, pid := range (&cgroup{path: path}).list() {
			if s, ok := newSurvivor(pid); ok && len(left) < survivorsNamed {
				left = append(left, s)
			}
		}
		return nil
	})
	return left
}

func (t *scanTree) survivors() (left []Survivor) {
	for pid := range t.members(readProcessTable(), false) {
		if s, ok := newSurvivor(pid); ok && len(left) < survivorsNamed {
			s.refused = unix.Kill(pid, 0) == unix.EPERM
			left = append(left, s)
		}
	}
	sort.Slice(left, func(i, j int) bool { return left[i].PID < left[j].PID })
	return left
}

func (noTree) survivors() []Survivor { return nil }
