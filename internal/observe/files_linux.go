package observe

import (
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"

	"golang.org/x/sys/unix"
)

// controllingTerminal is the number of /dev/tty, which is a different terminal for
// each session.
var controllingTerminal = FileID{Rdev: unix.Mkdev(5, 0)}

// files returns the files behind descriptors of a process.
func (l *look) files(pid int, s stat, fds ...int) []File {
	list := make([]File, 0, len(fds))
	for _, fd := range fds {
		f, ok := fileOf(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		if !ok {
			l.partial = true
			continue
		}
		f.FD = fd
		if f.ID == controllingTerminal {
			f.Kind, f.ID = FileTerminal, s.terminal
		}
		list = append(list, f)
	}
	return list
}

// fileOf returns the kind and identity of a file.
func fileOf(path string) (File, bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return File{}, false
	}
	return fileFrom(&st), true
}

func fileFrom(st *unix.Stat_t) File {
	f := File{ID: FileID{Dev: uint64(st.Dev), Ino: st.Ino}}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		f.Kind = FilePipe
	case unix.S_IFSOCK:
		f.Kind = FileSocket
	case unix.S_IFCHR:
		f.ID = FileID{Rdev: uint64(st.Rdev)}
		if major := unix.Major(uint64(st.Rdev)); major >= 136 && major <= 143 || major == 4 {
			f.Kind = FileTerminal
		}
	case 0: // no file type: eventfd, timerfd, signalfd
		f.Kind = FileInternal
	}
	return f
}

// identify returns the identity that processes see for the file behind one of our
// descriptors.
func identify(fd int) FileID {
	if n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil { // the master of a terminal: the processes have the slave
		return FileID{Rdev: unix.Mkdev(136, uint32(n))}
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return FileID{}
	}
	return fileFrom(&st).ID
}

// follow finds the processes at the other ends of the pipes that are waited for.
func (l *look) follow(e *Evidence) {
	var pipes map[FileID]*ends
	each := func(do func(p *Process, t *Thread, f *File)) {
		for i := range e.Processes {
			p := &e.Processes[i]
			for j := range p.Threads {
				t := &p.Threads[j]
				for k := range t.Files {
					if f := &t.Files[k]; f.Kind == FilePipe && !e.isInput(f) && !e.isOutput(f) {
						do(p, t, f)
					}
				}
			}
		}
	}
	each(func(_ *Process, t *Thread, f *File) {
		if pipes == nil {
			pipes = map[FileID]*ends{}
		}
		if pipes[f.ID] == nil {
			pipes[f.ID] = &ends{}
		}
		if t.Call != CallPoll { // if a call waits for several files, the other ends do not matter
			pipes[f.ID].wanted = true
		}
	})
	if len(pipes) == 0 {
		return
	}
	for _, p := range e.Processes {
		l.holds(p.PID, p.Name, pipes)
	}
	each(func(p *Process, t *Thread, f *File) { // a pipe of a process to itself wakes its own event loop
		if t.Call == CallPoll && pipes[f.ID].ownedBy(p.PID) {
			f.Kind = FileInternal
		}
	})
	l.searchOthers(e, pipes)
	each(func(p *Process, t *Thread, f *File) {
		if t.Call != CallPoll {
			f.Holders = pipes[f.ID].other(p.PID, t.Call)
		}
	})
}

// ends are the holders of a pipe.
type ends struct {
	wanted           bool
	readers, writers []Holder
}

func (e *ends) ownedBy(pid int) bool {
	own := func(h Holder) bool { return h.PID == pid }
	return slices.ContainsFunc(e.readers, own) && slices.ContainsFunc(e.writers, own)
}

// other returns the holders of the end that a process waits for.
func (e *ends) other(pid int, c Call) (others []Holder) {
	list := e.writers
	if c == CallWrite {
		list = e.readers
	}
	for _, h := range list {
		if h.PID != pid {
			others = append(others, h)
		}
	}
	return others
}

// holds notes which ends of the pipes a process has.
func (l *look) holds(pid int, name string, pipes map[FileID]*ends) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(maxDescriptors)
	for _, fd := range names {
		f, ok := fileOf(dir + "/" + fd)
		pipe := pipes[f.ID]
		var link unix.Stat_t
		if !ok || pipe == nil || unix.Lstat(dir+"/"+fd, &link) != nil {
			continue
		}
		h := Holder{pid, name}
		if link.Mode&unix.S_IRUSR != 0 && !slices.Contains(pipe.readers, h) {
			pipe.readers = append(pipe.readers, h)
		}
		if link.Mode&unix.S_IWUSR != 0 && !slices.Contains(pipe.writers, h) {
			pipe.writers = append(pipe.writers, h)
		}
	}
}

// searchOthers searches for ends that no process of the tree has, among all
// processes that may be inspected.
func (l *look) searchOthers(e *Evidence, pipes map[FileID]*ends) {
	missing := map[FileID]*ends{}
	for i := range e.Processes {
		for _, t := range e.Processes[i].Threads {
			for _, f := range t.Files {
				if p := pipes[f.ID]; p != nil && p.wanted && len(p.other(e.Processes[i].PID, t.Call)) == 0 {
					missing[f.ID] = p
				}
			}
		}
	}
	if len(missing) > 0 {
		l.scanOthers(e, missing)
	}
}

// scanOthers inspects the descriptors of the processes outside of the tree.
func (l *look) scanOthers(e *Evidence, pipes map[FileID]*ends) {
	dir, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	self, looked := os.Getpid(), 0
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self || slices.ContainsFunc(e.Processes, func(p Process) bool { return p.PID == pid }) {
			continue
		}
		if looked++; looked > maxStrangers || l.late() {
			l.partial = true
			return
		}
		if s, ok := readStat("/proc/" + name + "/stat"); ok && s.state != StateZombie {
			l.holds(pid, s.name, pipes)
		}
	}
}

// outputHolders returns the processes that can write to the outputs of a process
// that has exited.
func (l *look) outputHolders(e Evidence) []Holder {
	pipes := map[FileID]*ends{}
	for _, id := range e.Outputs {
		pipes[id] = &ends{}
	}
	for _, p := range e.Processes {
		l.holds(p.PID, p.Name, pipes)
	}
	holders := writers(pipes)
	if len(holders) == 0 {
		l.scanOthers(&e, pipes)
		holders = writers(pipes)
	}
	return holders
}

// writers returns the holders of a write end of any of the pipes, by pid.
func writers(pipes map[FileID]*ends) (list []Holder) {
	for _, p := range pipes {
		list = append(list, p.writers...)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].PID < list[j].PID })
	return slices.Compact(list)
}
