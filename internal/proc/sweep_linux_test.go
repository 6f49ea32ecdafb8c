package proc

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const notesVariable = "PROC_TEST_NOTES"

// Two commands: one ignores SIGTERM, the other ends and leaves grandchildren.
var notedScripts = []string{ignoresTERM, descendants + "sleep 1000 >/dev/null 2>&1 & echo pid=$!; echo pid=$$; wait"}

const notedPids = 7 // pids that the scripts print

func init() {
	helpers["noted"] = func() {
		s := New(Config{NoCgroups: true, Notes: os.Getenv(notesVariable)})
		for _, script := range notedScripts {
			if _, err := s.Start(background, shell(script), printSink{make(chan struct{})}); err != nil {
				panic(err)
			}
		}
		io.Copy(io.Discard, os.Stdin) // ends with the test
	}
}

// After a supervisor's program was killed, a sweep of its notes kills what its commands
// left.
func TestSweepAfterTheProgramWasKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notes")
	cmd, lines := startHelper(t, "noted", func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Environ(), notesVariable+"="+path)
		if _, err := cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
	})
	var pids []int
	for len(pids) < notedPids && lines.Scan() {
		var pid int
		if _, err := fmt.Sscanf(lines.Text(), "pid=%d", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if len(pids) < notedPids {
		t.Fatalf("only %d processes", len(pids))
	}
	if err := SweepNotes(path, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	awaitDeath(t, pids...)
}

// A leftover is a process in a session whose leader has, or had, the given pid.
type leftover struct{ pid, leader int }

// startLeader starts the leader of a session.
func startLeader(t *testing.T) leftover {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan struct{})
	go func() { // ends with the process
		cmd.Wait()
		close(reaped)
	}()
	t.Cleanup(func() { cmd.Process.Kill(); <-reaped })
	return newLeftover(t, cmd.Process.Pid, cmd.Process.Pid)
}

// startMember starts a process in a session whose leader has ended.
func startMember(t *testing.T) leftover {
	t.Helper()
	cmd := exec.Command("sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 & echo $!")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(line[:max(0, len(line)-1)])
	if err != nil {
		t.Fatal(err)
	}
	return newLeftover(t, pid, cmd.Process.Pid)
}

func newLeftover(t *testing.T, pid, leader int) leftover {
	t.Helper()
	p, err := pin(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.signal(unix.SIGKILL); p.close() })
	return leftover{pid, leader}
}

// The note decides whether a process belongs to the noted command, or has only got its pid.
func TestSweepSparesOthers(t *testing.T) {
	t.Parallel()
	const stampTime, stampForks, noteTime = 16, 24, notesHeader + 8 // offsets
	long := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	past := func(n uint64) uint64 { return n - min(n, 1000) }
	for _, row := range []struct {
		name   string
		start  func(*testing.T) leftover
		change func(write func(offset int64, text []byte), started uint64)
		killed bool
	}{
		{"leader", startLeader, nil, true},
		{"leader that started later", startLeader, func(write func(int64, []byte), started uint64) {
			write(noteTime, long(started-1))
		}, false},
		{"of another boot", startLeader, func(write func(int64, []byte), _ uint64) {
			write(notesIdentity, []byte("another"))
		}, false},
		{"of another user", startLeader, func(write func(int64, []byte), _ uint64) {
			write(8, binary.LittleEndian.AppendUint32(nil, uint32(os.Geteuid()+1)))
		}, false},
		{"struck out", startLeader, func(write func(int64, []byte), _ uint64) {
			write(notesHeader, make([]byte, noteNumberSize))
		}, false},
		{"member without leader", startMember, nil, true},
		{"member without leader, older than the stamp, numbers used up", startMember, func(write func(int64, []byte), started uint64) {
			write(noteTime, long(past(started)))
			write(stampTime, long(started))
			write(stampForks, long(0))
		}, true},
		{"member without leader, newer than the stamp, numbers used up", startMember, func(write func(int64, []byte), started uint64) {
			write(noteTime, long(past(started)))
			write(stampTime, long(past(started)))
			write(stampForks, long(0))
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			left := row.start(t)
			path := filepath.Join(t.TempDir(), "notes")
			book := &notebook{path: path, log: slog.New(slog.DiscardHandler)}
			if book.add(left.leader, nil) == nil {
				t.Fatal("no note")
			}
			entry, _ := readProcess(left.pid)
			started, err := strconv.ParseUint(entry.started, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if row.change != nil {
				row.change(func(offset int64, text []byte) {
					if _, err := book.file.WriteAt(text, offset); err != nil {
						t.Fatal(err)
					}
				}, started)
			}
			book.close()
			if err := SweepNotes(path, slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			if row.killed {
				awaitDeath(t, left.pid)
			} else if !alive(left.pid) {
				t.Error("the process was killed")
			}
		})
	}
}

func TestMayHaveWrapped(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		then, now, limit uint64
		want             bool
	}{
		{1000, 1000, 32768, false},
		{1000, 17000, 32768, false},
		{1000, 17384, 32768, true},
		{0, 1000, 32768, true},
		{1000, 0, 32768, true},
		{1000, 1000, 0, true},
	} {
		if got := mayHaveWrapped(row.then, row.now, row.limit); got != row.want {
			t.Errorf("from %d to %d forks, %d numbers: %t", row.then, row.now, row.limit, got)
		}
	}
}

// A program that a noted command started does not kill its own ancestors and
// session.
func TestSweepSparesItsOwnSession(t *testing.T) {
	t.Parallel()
	self, ok := readProcess(os.Getpid())
	if !ok {
		t.Fatal("/proc does not show this program")
	}
	n := &notes{alive: newStamp()}
	for _, pid := range []int{self.session, self.group} {
		n.commands = append(n.commands, notedCommand{pid: pid, time: ticksSinceBoot()})
	}
	search, spared := n.search(readProcessTable())
	if len(search.leaders) > 0 || !spared[os.Getppid()] {
		t.Errorf("looks for %v, spares %v", search.leaders, spared)
	}
}

// Notes of commands that have ended are removed, and their slots are reused.
func TestNotesOfEndedCommandsAreRemoved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notes")
	s := newSupervisor(t, Config{NoCgroups: true, Notes: path})
	running := func() int {
		n, err := readNotes(path)
		if err != nil {
			t.Fatal(err)
		}
		return len(n.commands)
	}
	for range 3 {
		p, sink := start(t, s, shell(ignoresTERM))
		awaitPids(t, sink, 1)
		if running() != 1 {
			t.Errorf("%d notes of one command", running())
		}
		p.Kill()
		if running() != 0 {
			t.Errorf("%d notes are left", running())
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() != notesHeader+noteSize {
		t.Errorf("the file has %d bytes: %v", info.Size(), err)
	}
}

// The number of notes is limited; further commands run without one.
func TestNotesAreBounded(t *testing.T) {
	t.Parallel()
	book := &notebook{path: filepath.Join(t.TempDir(), "notes"), log: slog.New(slog.DiscardHandler), next: maxNotes}
	defer book.close()
	if note := book.add(os.Getpid(), nil); note != nil {
		t.Errorf("noted at %d", note.slot)
	}
}

// The stamp is renewed while commands are noted, and only then.
func TestStamp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notes")
	book := &notebook{path: path, log: slog.New(slog.DiscardHandler)}
	defer book.close()
	note := book.add(os.Getpid(), nil)
	book.file.WriteAt(make([]byte, 16), 16) // no stamp
	book.stamp()
	n, err := readNotes(path)
	if err != nil || n.alive.forks == 0 || book.timer == nil {
		t.Errorf("stamp %+v, timer %v: %v", n.alive, book.timer, err)
	}
	note.remove()
	if book.stamp(); book.timer != nil {
		t.Error("the timer runs on")
	}
}

// BenchmarkNote measures what a note adds to a start and to the end of its command.
func BenchmarkNote(b *testing.B) {
	book := &notebook{path: filepath.Join(b.TempDir(), "notes"), log: slog.New(slog.DiscardHandler)}
	defer book.close()
	for b.Loop() {
		book.add(1<<22+1, []uint64{1, 2}).remove()
	}
}
