package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxNotes limits the commands that are noted at a time: the file has at most 1 MiB.
	maxNotes = 1 << 15
	// stampInterval is how often the stamp is renewed while commands are noted.
	stampInterval = time.Minute

	noteSize       = 32  // bytes
	notesHeader    = 256 // bytes before the first note
	notesMagic     = "tether1\n"
	notesIdentity  = 32 // offset of the identity, which ends with a zero byte
	notesOutputs   = 2  // output pipes per note
	noteNumberSize = 4
)

// A notebook is a file that lists the commands of this program that run without a cgroup.
// If the program is killed, [SweepNotes] of the next one kills what is left of them.
//
//	header  magic, uid (4 bytes), 4 bytes unused, stamp (time, forks), identity
//	note    pid (4 bytes; 0: none), 4 bytes unused, time, inodes of the output pipes
//
// Numbers have 8 bytes unless stated otherwise, in little-endian order. Times are clock ticks
// since boot, as in /proc/PID/stat. The file needs no sync: the commands do not survive a crash
// of the machine either.
//
// A note is written after its command was started and removed before the command is reaped. So
// while a note is valid, no other process can have the command's pid.
type notebook struct {
	path  string
	log   *slog.Logger
	again bool // an earlier program may have left the file; its commands are noted again

	once sync.Once
	file *os.File // nil: not opened, or opening has failed

	mu     sync.Mutex
	free   []int // free slots that were used before
	next   int   // the first slot that was never used
	timer  *time.Timer
	closed bool
	warned bool
}

// A note is the slot of one command in the file.
type note struct {
	book *notebook
	slot int
}

// open creates the file. A failure is logged, and commands run without notes.
func (b *notebook) open() {
	b.once.Do(func() {
		if err := b.create(); err != nil {
			b.log.Warn("commands cannot be noted: if this server is killed, the next one will not end them", "err", err)
		}
	})
}

func (b *notebook) create() error {
	identity, err := machineIdentity()
	if err != nil {
		return err
	}
	header := make([]byte, notesHeader)
	if notesIdentity+len(identity) >= notesHeader {
		return fmt.Errorf("the identity of this machine is too long: %s", identity)
	}
	copy(header, notesMagic)
	binary.LittleEndian.PutUint32(header[8:], uint32(os.Geteuid()))
	now := newStamp()
	binary.LittleEndian.PutUint64(header[16:], now.time)
	binary.LittleEndian.PutUint64(header[24:], now.forks)
	copy(header[notesIdentity:], identity)
	if b.again {
		os.Remove(b.path)
	}
	file, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(header, 0); err != nil {
		return errors.Join(err, file.Close())
	}
	b.file = file
	return nil
}

// add notes a command that was just started. The result is nil if there is no notebook, or no
// room in it.
func (b *notebook) add(pid int, pipes []uint64) *note {
	if b == nil {
		return nil
	}
	b.open()
	if b.file == nil {
		return nil
	}
	slot, err := b.take()
	if err == nil {
		var text [noteSize]byte
		binary.LittleEndian.PutUint32(text[0:], uint32(pid))
		binary.LittleEndian.PutUint64(text[8:], ticksSinceBoot())
		for i, inode := range pipes[:min(len(pipes), notesOutputs)] {
			binary.LittleEndian.PutUint64(text[16+8*i:], inode)
		}
		if _, err = b.file.WriteAt(text[:], offset(slot)); err == nil {
			return &note{b, slot}
		}
		b.put(slot)
	}
	b.warn(err)
	return nil
}

func offset(slot int) int64 { return notesHeader + noteSize*int64(slot) }

func (b *notebook) take() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer == nil && !b.closed {
		b.timer = time.AfterFunc(stampInterval, b.stamp)
	}
	if n := len(b.free); n > 0 {
		slot := b.free[n-1]
		b.free = b.free[:n-1]
		return slot, nil
	}
	if b.next == maxNotes {
		return 0, fmt.Errorf("limit reached: %d commands", maxNotes)
	}
	b.next++
	return b.next - 1, nil
}

func (b *notebook) put(slot int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, slot)
}

// warn logs only the first failure, because many may have the same cause.
func (b *notebook) warn(err error) {
	b.mu.Lock()
	first := !b.warned
	b.warned = true
	b.mu.Unlock()
	if first {
		b.log.Warn("a command was not noted: if this server is killed, the next one will not end it", "err", err)
	}
}

// remove removes the note. A note that could not be removed is harmless: the next process with
// its pid started later.
func (n *note) remove() {
	if n == nil {
		return
	}
	var none [noteNumberSize]byte
	if _, err := n.book.file.WriteAt(none[:], offset(n.slot)); err != nil {
		n.book.warn(err)
		return
	}
	n.book.put(n.slot)
}

// stamp records that this program is alive, as long as commands are noted.
func (b *notebook) stamp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = nil
	if b.closed || len(b.free) == b.next {
		return
	}
	now := newStamp()
	text := binary.LittleEndian.AppendUint64(nil, now.time)
	text = binary.LittleEndian.AppendUint64(text, now.forks)
	b.file.WriteAt(text, 16) // after an error the old stamp is still valid
	b.timer = time.AfterFunc(stampInterval, b.stamp)
}

// close is called when no command is left.
func (b *notebook) close() {
	if b == nil {
		return
	}
	b.once.Do(func() {})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	if b.file != nil {
		b.file.Close()
	}
}

// machineIdentity is equal for two programs if pids and start times mean the same to both. It
// consists of the boot, the pid namespace with its first process (the number of a namespace is
// reused when it is gone), and the clock. If the first process cannot be seen, two namespaces,
// one after the other, may have the same identity.
func machineIdentity() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return "", errors.New("/proc does not show the processes of this program's pid namespace")
	}
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	first, _ := readProcess(1)                    // empty if /proc hides the processes of other users
	clock, _ := os.Readlink("/proc/self/ns/time") // kernels before 5.6 have no time namespaces
	return strings.Join([]string{string(bytes.TrimSpace(boot)), pids, first.started, clock}, " "), nil
}

// A stamp is a time at which the program that wrote it was alive.
type stamp struct {
	time  uint64 // clock ticks since boot
	forks uint64 // processes and threads started since boot
}

func newStamp() stamp { return stamp{ticksSinceBoot(), forksSinceBoot()} }

// ClockTick is the unit of times in /proc, the same on every architecture that Go
// runs on.
const ClockTick = time.Second / 100

func ticksSinceBoot() uint64 {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return uint64(now.Nano() / int64(ClockTick))
}

// forksSinceBoot is 0 if the system does not say. Each fork uses at most one new pid.
func forksSinceBoot() uint64 {
	text, _ := os.ReadFile("/proc/stat")
	_, rest, _ := bytes.Cut(text, []byte("\nprocesses "))
	digits, _, _ := bytes.Cut(rest, []byte("\n"))
	n, _ := strconv.ParseUint(string(digits), 10, 64)
	return n
}
