//go:build amd64 || arm64

package fork

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/tethertest/need"
)

// Many threads start programs at once while the garbage collector runs, stacks grow and shrink,
// signals arrive and other goroutines start programs by the standard library. Each program gets
// its own arguments, environment and descriptors.
func TestManyStartsAtOnce(t *testing.T) {
	const threads, starts = 32, 20
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	defer signal.Stop(signals)
	stop := make(chan struct{})
	var disturbers, starters sync.WaitGroup
	disturb := func(f func()) {
		disturbers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	disturb(runtime.GC)
	disturb(func() { growStack(1000) })
	disturb(func() { unix.Kill(os.Getpid(), unix.SIGUSR1); runtime.Gosched() })
	for i := range threads {
		starters.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s := NewStarter()
			defer s.Close()
			start := s.Start
			if i%8 == 7 {
				start = forkExec
			}
			for j := range starts {
				growStack(j % 10)
				startAndCheck(t, start, fmt.Sprintf("%d.%d", i, j))
			}
		})
	}
	starters.Wait()
	close(stop)
	disturbers.Wait()
}

// growStack makes the goroutine's stack grow, and garbage.
func growStack(depth int) *[64]*int {
	var local [64]*int
	local[depth%64] = new(int)
	if depth > 0 {
		local[0] = growStack(depth - 1)[0]
	}
	return &local
}

// startAndCheck starts a program that prints its arguments, environment and input.
func startAndCheck(t *testing.T, start func(*Command) (Child, error), mark string) {
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return
	}
	long := strings.Repeat(mark, 500)
	child, err := start(&Command{
		Path: "/bin/sh", Argv: []string{"sh", "-c", `read line; echo "$1 $MARK $line"; [ ! -e /proc/self/fd/3 ]`, "name", long},
		Env: []string{"MARK=" + mark}, Dir: -1, Cgroup: -1, DeathSignal: unix.SIGTERM,
		Files: []int{descriptor(inRead), descriptor(outWrite), 2},
	})
	inRead.Close()
	outWrite.Close()
	if err != nil {
		t.Error(err)
		return
	}
	fmt.Fprintln(inWrite, "line", mark)
	inWrite.Close()
	text, err := io.ReadAll(outRead)
	outRead.Close()
	status := reap(t, child)
	if want := long + " " + mark + " line " + mark + "\n"; string(text) != want || err != nil || status != 0 {
		t.Errorf("printed %d bytes, %v, and ended with %#x: %.40q, want %.40q", len(text), err, status, text, want)
	}
}

// A lease makes each execution of a program wait.
type lease struct {
	path string
	file *os.File
	hit  chan os.Signal // an execution waits
}

func newLease(t *testing.T) *lease {
	t.Helper()
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	l := &lease{path: filepath.Join(t.TempDir(), "program"), hit: make(chan os.Signal, 1)}
	if err := os.WriteFile(l.path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if l.file, err = os.Open(l.path); err != nil {
		t.Fatal(err)
	}
	signal.Notify(l.hit, unix.SIGIO)
	t.Cleanup(func() { signal.Stop(l.hit); l.file.Close() })
	if err := l.set(unix.F_WRLCK); err != nil {
		need.CannotRun(t, "the file system of %s has no leases: %v", l.path, err)
	}
	return l
}

func (l *lease) set(kind int) error {
	_, err := unix.FcntlInt(uintptr(descriptor(l.file)), unix.F_SETLEASE, kind)
	return err
}

// While the execution of a program hangs, the pid is noted, and neither the garbage collector nor
// other starts nor other users of descriptors wait.
func TestHangingExec(t *testing.T) {
	inAllModes(t, func(t *testing.T, s *Starter) {
		l := newLease(t)
		note := sharedNote(t)
		own := newStation(t)
		own.Path, own.Argv, own.Note = l.path, []string{"true"}, note
		var started sync.WaitGroup
		var returned atomic.Bool
		started.Go(func() {
			runtime.LockOSThread()
			child, err := s.Start(own.Command)
			returned.Store(true)
			if err != nil {
				t.Error(err)
				return
			}
			if int32(child.Pid) != note.Pid {
				t.Errorf("child %d, noted is %d", child.Pid, note.Pid)
			}
			reap(t, child)
		})
		<-l.hit
		pid := int(atomic.LoadInt32(&note.Pid))
		if pid == 0 || unix.Kill(pid, 0) != nil {
			t.Errorf("there is no child %d", pid)
		}
		if handled := lineOf(statusOf(t, pid), "SigCgt:"); strings.Trim(handled, "0") != "" {
			t.Errorf("the child handles the signals %s", handled)
		}
		runtime.GC()
		free := syscall.ForkLock.TryLock()
		if free {
			syscall.ForkLock.Unlock()
		}
		if free == s.noCloseRange {
			t.Errorf("the lock of package syscall is free: %v", free)
		}
		if free {
			newStation(t).view(t, newStarter(t).Start)
			newStation(t).view(t, forkExec)
			if files := inspect(t, pid).Files; len(files) > len(own.Files)+1 {
				t.Errorf("the child that hangs has the descriptors %q, want those of its program and its directory", files)
			}
		}
		if returned.Load() {
			t.Error("the start did not wait")
		}
		if err := l.set(unix.F_UNLCK); err != nil {
			t.Error(err)
		}
		started.Wait()
	})
}

// sharedNote makes a note in memory that other processes can map.
func sharedNote(t *testing.T) *Note {
	t.Helper()
	fd, err := unix.MemfdCreate("note", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	size := int(unsafe.Sizeof(Note{}))
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(memory) })
	return (*Note)(unsafe.Pointer(&memory[0]))
}

// A failed start is noted where the command says.
func TestFailureIsNoted(t *testing.T) {
	inAllModes(t, func(t *testing.T, s *Starter) {
		own := newStation(t)
		own.Path, own.Note = "/none", sharedNote(t)
		err := start(s, own.Command)
		if noted := own.Note.Failure.Err(); err == nil || noted == nil || noted.Error() != err.Error() || own.Note.Pid == 0 {
			t.Errorf("failed with %v, noted is %v for process %d", err, noted, own.Note.Pid)
		}
	})
}
