package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/filelock"
)

// A notedCommand is the content of a note.
type notedCommand struct {
	pid   int
	time  uint64 // it started no later than this
	pipes []uint64
}

// notes is the content of the notebook of a program that has ended.
type notes struct {
	alive    stamp // the program was alive then
	commands []notedCommand
}

// SweepNotes kills what is left of the commands that a program noted ([Config.Notes]) before it
// was killed. The caller makes sure that the program has ended. A file is ignored if it is
// missing, or was written by another user, before the last boot or in another pid namespace.
//
// A process is signalled through a pidfd that was opened before the last check that it is still
// the same process.
func SweepNotes(path string, log *slog.Logger) error {
	n, err := readNotes(path)
	if err != nil {
		return fmt.Errorf("read the notes about commands: %w", err)
	}
	if n == nil || len(n.commands) == 0 {
		return nil
	}
	self, err := pin(os.Getpid())
	if err != nil || self.file == nil {
		return fmt.Errorf("this kernel has no pidfds to tell processes apart: %w", errors.ErrUnsupported)
	}
	self.close()
	if count := killInRounds(n.left); count > 0 {
		log.Info("ended processes that a killed server had left running", "processes", count)
	}
	return nil
}

// readNotes returns nil if the file names no process that this program could find.
func readNotes(path string) (*notes, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, notesHeader+maxNotes*noteSize))
	if err != nil {
		return nil, err
	}
	identity, err := machineIdentity()
	if err != nil {
		return nil, err
	}
	if len(text) < notesHeader || string(text[:8]) != notesMagic || binary.LittleEndian.Uint32(text[8:]) != uint32(os.Geteuid()) {
		return nil, nil
	}
	if theirs, _, _ := bytes.Cut(text[notesIdentity:notesHeader], []byte{0}); string(theirs) != identity {
		return nil, nil
	}
	n := &notes{alive: stamp{binary.LittleEndian.Uint64(text[16:]), binary.LittleEndian.Uint64(text[24:])}}
	for rest := text[notesHeader:]; len(rest) >= noteSize; rest = rest[noteSize:] {
		command := notedCommand{pid: int(int32(binary.LittleEndian.Uint32(rest))), time: binary.LittleEndian.Uint64(rest[8:])}
		if command.pid <= 1 {
			continue
		}
		for i := range notesOutputs {
			if inode := binary.LittleEndian.Uint64(rest[16+8*i:]); inode != 0 {
				command.pipes = append(command.pipes, inode)
			}
		}
		n.alive.time = max(n.alive.time, command.time)
		n.commands = append(n.commands, command)
	}
	return n, nil
}

// left returns the processes that are left of the commands. (Facts that are read about a process
// here are valid if the process can be pinned afterwards: then it existed all the time.)
func (n *notes) left() map[int]processEntry {
	table := readProcessTable()
	search, spared := n.search(table)
	found := search.members(table, true, nil)
	for pid := range found {
		if spared[pid] || !ownProcess(pid) {
			delete(found, pid)
		}
	}
	return found
}

// search returns a search for the trees of the commands whose pids still belong to them. It
// spares the ancestors of this program, and the tree that this program belongs to, in case a
// noted command has started it.
func (n *notes) search(table processTable) (search *treeSearch, spared map[int]bool) {
	spared, ours := ancestry(table)
	found := newTreeSearch()
	wrapped := n.numbersMayBeReused()
	for _, command := range n.commands {
		if ours[command.pid] {
			continue
		}
		for _, inode := range command.pipes {
			found.outputs[pipeLink(inode)] = true
		}
		if n.stillBelongs(command, table, wrapped) {
			found.leaders[command.pid] = true
		}
	}
	return &found, spared
}

// stillBelongs reports whether processes with this pid, or in the session with this number, belong
// to the noted command. The kernel does not give a number to a new process while a process,
// group or session has it.
func (n *notes) stillBelongs(command notedCommand, table processTable, wrapped bool) bool {
	if leader, ok := table[command.pid]; ok {
		return leader.startedBy(command.time) // otherwise the pid was free meanwhile: nothing is left
	}
	// The leader has ended. While the program lived, the number was the command's. It still is
	// if a member of the session existed then, or if no number can have been reused since.
	if !wrapped {
		return true
	}
	for _, entry := range table {
		if entry.session == command.pid && entry.startedBy(n.alive.time) {
			return true
		}
	}
	return false
}

// startedBy reports whether the process had started at the given time, in clock ticks
// since boot.
func (e processEntry) startedBy(time uint64) bool {
	started, err := strconv.ParseUint(e.started, 10, 64)
	return err == nil && started <= time
}

// numbersMayBeReused reports whether a pid that was in use when the stamp was written may
// belong to a new process now.
func (n *notes) numbersMayBeReused() bool {
	if _, ok := readProcess(1); !ok {
		return true // this may be another pid namespace
	}
	text, _ := os.ReadFile("/proc/sys/kernel/pid_max")
	limit, _ := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64) // 0: unknown
	return mayHaveWrapped(n.alive.forks, forksSinceBoot(), limit)
}

// mayHaveWrapped reports whether the kernel may have used all pids below limit while the number
// of forks rose from then to now. The kernel assigns pids in ascending order and begins again at
// the end. It skips pids in use, which are far fewer than half.
func mayHaveWrapped(then, now, limit uint64) bool {
	return then == 0 || now < then || now-then >= limit/2
}

// ancestry returns this program's ancestors, and the sessions and groups of this program and
// them.
func ancestry(table processTable) (pids, sessions map[int]bool) {
	pids, sessions = map[int]bool{}, map[int]bool{}
	entry, ok := readProcess(os.Getpid())
	for ok {
		sessions[entry.session], sessions[entry.group] = true, true
		pid := entry.parent
		if entry, ok = table[pid]; !ok || pids[pid] {
			break
		}
		pids[pid] = true
	}
	return pids, sessions
}

// ownProcess reports whether a process runs as this program's user.
func ownProcess(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(status, []byte("\nUid:\t"))
	uid, _, _ := bytes.Cut(rest, []byte("\t"))
	return string(uid) == strconv.Itoa(os.Geteuid())
}

// recordGroups writes the paths of the cgroups below which those of commands are, or may be made, to a file, for
// SweepGroups.
func (h *host) recordGroups(name string) error {
	var text strings.Builder
	if h.cgroups != nil {
		fmt.Fprintln(&text, h.cgroups.parent.path)
	}
	for i := range h.limiter.v1 {
		if v1 := &h.limiter.v1[i]; v1.missing == nil {
			fmt.Fprintln(&text, filepath.Join(v1.own, h.limiter.name))
		}
	}
	if before, err := os.ReadFile(name); err == nil && string(before) == text.String() {
		return nil
	}
	return os.WriteFile(name, []byte(text.String()), 0o600)
}

// maxGroups limits what is read of a file with the paths of cgroups.
const maxGroups = 64 << 10

// SweepGroups kills what is left in the cgroups that a program recorded ([Config.Groups]) before it was killed, wherever they
// are, and removes them. A cgroup that is locked belongs to a program that runs, and is left alone.
func SweepGroups(name string, log *slog.Logger) error {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the list of control groups: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxGroups))
	if err != nil {
		return fmt.Errorf("read the list of control groups: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		dir := strings.TrimSuffix(line, "\n")
		if !filepath.IsAbs(dir) || !strings.HasPrefix(filepath.Base(dir), cgroupPrefix) {
			continue
		}
		if sweepGroup(dir) {
			log.Info("ended processes that a killed server had left running", "cgroup", dir)
		}
	}
	return nil
}

// sweepGroup ends a cgroup whose owner has died. It reports whether there was one.
func sweepGroup(dir string) bool {
	fd, err := lockCgroup(dir, filelock.Exclusive)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	left := &cgroup{path: dir}
	if _, err := os.Stat(left.file("cgroup.events")); err != nil {
		endGroup(dir) // version 1
		return true
	}
	if !left.empty() {
		left.killAll()
		left.await(time.Now().Add(killWait))
	}
	removeCgroup(dir)
	return true
}
