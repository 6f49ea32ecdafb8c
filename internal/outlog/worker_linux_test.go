//go:build amd64 || arm64

package outlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/arena"
)

// This file is the worker of the crash tests: a process that fills logs from pipes and
// terminals, reads them as clients do, and dies somewhere (TETHER_CRASH). Everything that it
// needs comes from its parent, which plays the keeper and the clients.

func init() { worker = runWorker }

// workerConfig says what a worker gets. Descriptors are numbers in the worker.
type workerConfig struct {
	Arena int
	Dir   string // of spool files
	Logs  []workerLog
	Fault string // a mistake to make
}

type workerLog struct {
	Slot    int
	Report  int // a packet socket: each entry, before it counts as sent
	Sources []workerSource
	Spool   int    // 0: none yet
	After   uint64 // what the client has got
	Lazy    bool   // the client reads when three segments are spooled, or the output has ended
	Retain  int64
}

type workerSource struct {
	Stream      Stream
	FD          int
	Read, Write int // the pipe in between; 0: none
}

// A report is what the parent gets from a worker, as JSON in one packet.
type report struct {
	Seq    uint64 // of an entry
	Kind   Kind
	Stream Stream
	At     int64
	Code   int
	Size   int
	Sum    uint32

	Old   bool   // read by an observer
	Found *Found // what Reopen found
	Spool bool   // the packet carries the spool file
	End   bool   // everything is done
}

func runWorker(config string) {
	var c workerConfig
	check(json.Unmarshal([]byte(config), &c))
	plant(c.Fault)
	a, err := arena.Open(os.NewFile(uintptr(c.Arena), "arena"))
	check(err)
	slots := map[int]*arena.Slot{}
	for _, s := range a.Slots() {
		slots[s.Index()] = s
	}
	pool := NewPool(c.Dir, ample)
	var all sync.WaitGroup
	for _, wl := range c.Logs {
		w := &workedLog{workerLog: wl, changed: make(chan struct{}, 1)}
		config := Config{Retain: wl.Retain, Limit: 4 << 20, Slot: slots[wl.Slot], HoldSpool: w.holdSpool}
		var spool *os.File
		if wl.Spool != 0 {
			spool = os.NewFile(uintptr(wl.Spool), "spool")
		}
		log, found, err := Reopen(pool, config, spool)
		check(err)
		w.log = log
		w.send(report{Found: &found}, nil)
		all.Go(w.run)
	}
	all.Wait()
}

// check ends a worker that cannot go on. The parent sees the status.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(3)
	}
}

// A workedLog is a log and all who use it.
type workedLog struct {
	workerLog
	log     *Log
	changed chan struct{}         // there are new entries
	fills   [PTY + 1]atomic.Int64 // of each stream, with output
}

func (w *workedLog) run() {
	defer w.log.OnAppend(func(bool) {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	})()
	var fills, readers sync.WaitGroup
	readers.Go(w.client)
	readers.Go(w.observer)
	for _, s := range w.Sources {
		fills.Go(func() { w.fill(s) })
	}
	fills.Wait()
	w.log.Exit(7)
	w.log.Close()
	readers.Wait()
	w.send(report{End: true}, nil)
}

// fill takes the output of a source until it ends.
func (w *workedLog) fill(s workerSource) {
	defer func() {
		if p := recover(); p != nil {
			w.awaitOther(s.Stream)
			panic(p)
		}
	}()
	var between *Between
	if s.Read != 0 {
		between = NewBetween(s.Read, s.Write)
	}
	for {
		n, err := w.log.Fill(s.Stream, s.FD, between)
		if n > 0 {
			w.fills[s.Stream].Add(1)
		}
		switch {
		case err == nil:
		case errors.Is(err, unix.EAGAIN):
			await(s.FD)
		case errors.Is(err, io.EOF), errors.Is(err, unix.EIO), errors.Is(err, ErrCut): // ErrCut: an earlier worker has closed the log
			return
		default:
			check(err)
		}
	}
}

// awaitOther lets the other stream of the log go on for a moment after a panic, as it may while
// the runtime ends the program: until it has taken output, or has probably none.
func (w *workedLog) awaitOther(s Stream) {
	if s == PTY {
		return
	}
	other := &w.fills[Stdout+Stderr-s]
	before := other.Load()
	for deadline := time.Now().Add(300 * time.Millisecond); other.Load() == before && time.Now().Before(deadline); {
		runtime.Gosched()
	}
}

// await returns when there is something to read.
func await(fd int) {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err != unix.EINTR {
			check(err)
			return
		}
	}
}

// client reads every entry from where it was, and reports it.
func (w *workedLog) client() {
	if w.Lazy {
		for w.log.Stats().Spooled < 3*MaxEntry*4 && !w.log.State().Closed {
			<-w.changed
		}
	}
	random := rand.New(rand.NewPCG(w.After, uint64(w.Slot)))
	c := w.log.Cursor(w.After)
	for {
		err := c.Next(func(e Entry) { w.send(entryReport(e, false), nil) })
		switch {
		case err == nil:
			if random.IntN(3) > 0 {
				w.log.Sent(c.Seq())
			}
		case errors.Is(err, ErrNone):
			w.log.Sent(c.Seq())
			<-w.changed
		case errors.Is(err, io.EOF):
			w.log.Sent(c.Seq())
			return
		default:
			check(err)
		}
	}
}

// observer reads all entries that are kept when it begins, and reports them.
func (w *workedLog) observer() {
	stats := w.log.Stats()
	for c := w.log.Cursor(stats.First - 1); c.Seq() < min(stats.Next-1, w.After); {
		err := c.Next(func(e Entry) { w.send(entryReport(e, true), nil) })
		if errors.Is(err, ErrEvicted) {
			return
		}
		check(err)
	}
}

func entryReport(e Entry, old bool) report {
	return report{Seq: e.Seq, Kind: e.Kind, Stream: e.Stream, At: e.Time.UnixNano(), Code: e.ExitCode,
		Size: len(e.Data), Sum: crc32.ChecksumIEEE(e.Data), Old: old}
}

func (w *workedLog) holdSpool(f *os.File) error {
	w.send(report{Spool: true}, unix.UnixRights(int(f.Fd())))
	return nil
}

// send sends a packet to the parent. It has it when send returns, whatever happens
// then.
func (w *workedLog) send(r report, rights []byte) {
	b, err := json.Marshal(r)
	check(err)
	for {
		err := unix.Sendmsg(w.Report, b, rights, nil, 0)
		if err != unix.EINTR {
			check(err)
			return
		}
	}
}

// plant makes a mistake that the tests must find.
func plant(fault string) {
	switch fault {
	case "":
	case "read and append": // the bytes are in this process for a moment
		moveBytes = func(slot *arena.Slot, pipe, n int) (int, error) {
			b := make([]byte, n)
			n, err := unix.Read(pipe, b)
			if n <= 0 {
				return n, err
			}
			pointSplice.Passed()
			off := int64(slot.Off.Load())
			if _, err := unix.Pwrite(int(slot.Arena().File().Fd()), b[:n], off); err != nil {
				return 0, err
			}
			slot.Off.Store(uint64(off)+uint64(n), pointOff)
			return n, nil
		}
	case "two stores": // the record counts before it is complete
		addRecord = func(b *arena.Block, i int, r arena.Record) {
			b.Commit(i+1, pointCount)
			b.Put(i, r)
		}
	case "no repair":
		repair = func(*history) {}
	default:
		check(fmt.Errorf("unknown fault %q", fault))
	}
}
