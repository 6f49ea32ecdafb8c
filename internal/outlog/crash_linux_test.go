//go:build amd64 || arm64

package outlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/arena"
	"github.com/tetherexec/tether/internal/crash"
)

// A storm is a test in which workers die: it holds what outlives them, feeds the pipes and
// terminals, and compares what the clients get.
type storm struct {
	arena     *arena.Arena
	dir       string
	logs      []*stormLog
	producers sync.WaitGroup

	deaths, repairs, empties, unused, spooled, reread int
	faults                                            []string
}

// A stormLog is one log, its sources and its client.
type stormLog struct {
	slot    *arena.Slot
	sources []*source
	spool   *os.File
	lazy    bool
	retain  int64

	entries []report // that the client got; entry n at n-1
	read    [PTY + 1]int64
	ended   bool
}

// A source is a stream of output with a computable byte at each position.
type source struct {
	stream        Stream
	output, input *os.File // where the worker reads, where the output is written
	between       [2]*os.File
	total         int64
}

func (s *storm) faultf(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// newStorm makes a log with two pipes and one with a terminal. Each stream has total bytes.
func newStorm(t *testing.T, total int64, lazy bool) *storm {
	t.Helper()
	a, err := arena.Create(arena.Config{Slots: 8, Blocks: 64, Journal: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	s := &storm{arena: a, dir: t.TempDir()}
	streams := [][]Stream{{Stdout, Stderr}, {PTY}}
	for i, list := range streams {
		slot, err := a.TakeSlot()
		if err != nil {
			t.Fatal(err)
		}
		l := &stormLog{slot: slot, lazy: lazy, retain: 300 << 10}
		for _, stream := range list {
			l.sources = append(l.sources, newSource(t, stream, total/int64(i*3+1))) // terminals are slow
		}
		s.logs = append(s.logs, l)
	}
	for _, l := range s.logs {
		for _, src := range l.sources {
			s.producers.Go(src.produce)
		}
	}
	t.Cleanup(s.close)
	return s
}

func newSource(t *testing.T, stream Stream, total int64) *source {
	t.Helper()
	s := &source{stream: stream, total: total}
	var err error
	if stream != PTY {
		if s.output, s.input, err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	} else {
		s.output, s.input = openTerminal(t)
		if s.between[0], s.between[1], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []*os.File{s.output, s.between[0], s.between[1]} {
		if f != nil {
			setNonblock(t, f)
		}
	}
	return s
}

func setNonblock(t *testing.T, f *os.File) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), true) })
	if err != nil {
		t.Fatal(err)
	}
}

// openTerminal returns both ends of a terminal that changes no bytes.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Oflag &^= unix.OPOST
	mode.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// produce writes the stream in pieces from 1 byte to 64 KiB.
func (s *source) produce() {
	random := rand.New(rand.NewPCG(uint64(s.stream), 1))
	for at := int64(0); at < s.total; {
		n := min(1+random.Int64N(1<<(1+random.IntN(16))), s.total-at)
		if _, err := s.input.Write(pattern(s.stream, at, int(n))); err != nil {
			break // the test has failed and closed everything
		}
		at += n
	}
	s.input.Close()
}

func (s *storm) close() {
	for _, l := range s.logs {
		for _, src := range l.sources {
			src.output.Close()
			for _, f := range src.between {
				if f != nil {
					f.Close()
				}
			}
		}
		if l.spool != nil {
			l.spool.Close()
		}
	}
	s.producers.Wait()
	s.arena.Close()
}

// A wire is the connection to one worker for one log.
type wire struct {
	log  *stormLog
	ours int
}

// worker runs one worker until it ends. spec says where it dies, "" nowhere. It reports
// whether the worker has ended by itself.
func (s *storm) worker(t *testing.T, spec, fault string) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	config := workerConfig{Dir: s.dir, Fault: fault}
	give := func(f *os.File) int {
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
		return 2 + len(cmd.ExtraFiles)
	}
	config.Arena = give(s.arena.File())
	var wires []wire
	for _, l := range s.logs {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		theirs := os.NewFile(uintptr(pair[1]), "report")
		defer theirs.Close()
		wires = append(wires, wire{l, pair[0]})
		wl := workerLog{Slot: l.slot.Index(), Report: give(theirs), After: uint64(len(l.entries)), Lazy: l.lazy, Retain: l.retain}
		for _, src := range l.sources {
			ws := workerSource{Stream: src.stream, FD: give(src.output)}
			if src.between[0] != nil {
				ws.Read, ws.Write = give(src.between[0]), give(src.between[1])
			}
			wl.Sources = append(wl.Sources, ws)
		}
		if l.spool != nil {
			wl.Spool = give(l.spool)
		}
		config.Logs = append(config.Logs, wl)
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), workerVariable+"="+string(text), crash.Variable+"="+spec, "GORACE=atexit_sleep_ms=0")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err = cmd.Start()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range cmd.ExtraFiles {
		if f.Name() == "report" {
			f.Close()
		}
	}
	s.receive(wires)
	return s.judge(cmd.Wait(), stderr.String())
}

// judge looks at how a worker ended.
func (s *storm) judge(err error, stderr string) (finished bool) {
	if err == nil {
		return true
	}
	exit, _ := errors.AsType[*exec.ExitError](err)
	status, _ := exit.Sys().(unix.WaitStatus)
	planned := exit.ExitCode() == 2 && (strings.Contains(stderr, "crash point") || strings.Contains(stderr, "fault address"))
	if !planned && !(exit != nil && exit.ProcessState.String() == "signal: killed") {
		s.faultf("worker: %v %v\n%s", err, status, stderr)
	}
	s.deaths++
	return false
}

// receive takes all packets of a worker until it has died.
func (s *storm) receive(wires []wire) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, w := range wires {
		all.Go(func() {
			defer unix.Close(w.ours)
			b, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4))
			for {
				n, nr, _, _, err := unix.Recvmsg(w.ours, b, rights, unix.MSG_CMSG_CLOEXEC)
				switch {
				case err == unix.EINTR, err == unix.ECONNRESET: // the queue may have more
					continue
				case err != nil || n == 0:
					return
				}
				mu.Lock()
				s.take(w.log, b[:n], rights[:nr])
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// take records what a worker has reported.
func (s *storm) take(l *stormLog, packet, rights []byte) {
	var r report
	if err := json.Unmarshal(packet, &r); err != nil {
		s.faultf("packet: %v", err)
		return
	}
	switch {
	case r.Spool:
		messages, err := unix.ParseSocketControlMessage(rights)
		if err != nil || len(messages) != 1 {
			s.faultf("spool file: %v", err)
			return
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			s.faultf("spool file: %v", err)
			return
		}
		if l.spool != nil {
			l.spool.Close()
		}
		l.spool = os.NewFile(uintptr(fds[0]), "spool")
	case r.Found != nil:
		s.count(*r.Found)
	case r.End:
		l.ended = true
	default:
		s.entry(l, r)
	}
}

func (s *storm) count(f Found) {
	if f.Rest > 0 {
		s.repairs++
	}
	if f.Empty {
		s.empties++
	}
	s.unused += f.Unused
	s.spooled += f.Spooled
}

// entry checks an entry: the first time against the stream, then against the first time.
func (s *storm) entry(l *stormLog, r report) {
	old := r.Old
	r.Old = false
	if n := uint64(len(l.entries)); r.Seq <= n {
		if l.entries[r.Seq-1] != r {
			s.faultf("entry was %+v and is %+v", l.entries[r.Seq-1], r)
		}
		if old {
			s.reread++
		}
		return
	} else if r.Seq != n+1 {
		s.faultf("entry %d follows %d", r.Seq, n)
		return
	}
	l.entries = append(l.entries, r)
	if r.Kind != Output {
		return
	}
	if r.Stream < Stdout || r.Stream > PTY || r.Size == 0 || r.Size > MaxEntry {
		s.faultf("entry %+v", r)
		return
	}
	if r.Sum != crc32.ChecksumIEEE(pattern(r.Stream, l.read[r.Stream], r.Size)) {
		s.faultf("entry %d has wrong bytes of stream %d at %d", r.Seq, r.Stream, l.read[r.Stream])
	}
	l.read[r.Stream] += int64(r.Size)
}

// finish checks that everything has arrived, and that nothing is left in the arena.
func (s *storm) finish(t *testing.T) {
	t.Helper()
	for _, l := range s.logs {
		for _, src := range l.sources {
			if got := l.read[src.stream]; got != src.total {
				s.faultf("%d of %d bytes of stream %d", got, src.total, src.stream)
			}
		}
		if n := len(l.entries); !l.ended || n < 3 || l.entries[n-1].Kind != Closed || l.entries[n-2].Kind != Exited || l.entries[n-2].Code != 7 {
			s.faultf("%d entries, and no end", n)
		}
	}
	file, err := duplicate(s.arena.File())
	if err != nil {
		t.Fatal(err)
	}
	a, err := arena.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for i, slot := range a.Slots() {
		var spool *os.File
		if held := s.logs[i].spool; held != nil {
			if spool, err = duplicate(held); err != nil {
				t.Fatal(err)
			}
		}
		l, _, err := Reopen(NewPool(s.dir, ample), Config{Slot: slot}, spool)
		if err != nil {
			s.faultf("%v", err)
			continue
		}
		l.End()
		slot.Free()
	}
	if _, used := a.FreeMemory(); used != 0 {
		s.faultf("%d blocks are still in use", used)
	}
}

// crashPoints are the points that a worker passes, and how often it passes each before
// it dies there.
var crashPoints = map[string][]int{
	"arena.blocks.used":  {1, 3},
	"arena.block.header": {1, 4},
	"arena.block.record": {1, 2, 30},
	"outlog.block":       {1, 4},
	"outlog.stream":      {1, 2, 3},
	"outlog.splice":      {1, 2, 7, 40},
	"outlog.between":     {1, 2, 9},
	"outlog.count":       {1, 2, 9, 40},
	"outlog.end":         {1, 2, 5},
	"outlog.sealed":      {1, 2, 15},
	"outlog.sent":        {1, 9},
	"outlog.delivered":   {1, 9},
	"outlog.released":    {1, 9},
	"outlog.first":       {1, 3},
	"outlog.spool":       {1, 2},
	"outlog.mark":        {1, 2},
	"outlog.memory":      {1, 2},
}

// lazyPoints are the points that a worker passes if its client reads late.
var lazyPoints = map[string]bool{"outlog.end": true, "outlog.spool": true, "outlog.mark": true, "outlog.memory": true}

// notInWorker are the points that a worker of these tests does not pass.
var notInWorker = map[string]string{
	"outlog.blocked":       "the limits of these tests are not reached",
	"arena.create":         "the parent makes the arena",
	"arena.slot.serial":    "and the slots",
	"arena.slot.clear":     "and the slots",
	"arena.slot.take":      "and the slots",
	"arena.slots.used":     "and the slots",
	"arena.slot.free":      "and frees them",
	"arena.punch":          "in a storm of full length only",
	"arena.journal.note":   "logs write no notes",
	"arena.journal.commit": "logs write no notes",
	"arena.journal.copy":   "logs write no notes",
	"arena.journal.switch": "logs write no notes",
	"arena.input.bytes":    "logs have no input",
	"arena.input.pair":     "logs have no input",
	"arena.input.accepted": "logs have no input",
	"arena.input.sent":     "logs have no input",
	"arena.input.reset":    "logs have no input",
	"outlog.write":         "the bytes come from pipes",
	"outlog.off":           "the bytes come from pipes",
	"outlog.exit":          "the exit comes last",
	"outlog.ended":         "the parent ends the logs",
}

// scaled is tethertest.Scaled, which imports this package.
func scaled(short, full int) int {
	if os.Getenv("TETHER_SOAK") == "1" {
		return full
	}
	return short
}

// Every lasting effect of a log has a crash point in one of the two tables.
func TestCrashPointsAreInATable(t *testing.T) {
	for _, name := range crash.Names() {
		if _, out := notInWorker[name]; crashPoints[name] == nil && !out {
			t.Errorf("%s is in no table", name)
		}
	}
}

// A worker dies behind each lasting effect, and the next one continues: every byte arrives
// once and in order, numbers have no gaps, and an entry that a reader has seen never
// changes.
func TestLogSurvivesDeathAtEachPoint(t *testing.T) {
	t.Parallel()
	for name, counts := range crashPoints {
		for _, n := range counts[:scaled(1, len(counts))] {
			for _, way := range []string{"kill", "panic"} {
				spec := fmt.Sprintf("%s:%d,%s", name, n, way)
				t.Run(spec, func(t *testing.T) {
					t.Parallel()
					s := newStorm(t, 2<<20, lazyPoints[name])
					for range 3 {
						if s.worker(t, spec, "") {
							break
						}
					}
					if s.deaths == 0 {
						t.Error("the worker did not die")
					}
					for !s.ended() && len(s.faults) == 0 {
						s.worker(t, "", "")
					}
					s.finish(t)
					s.report(t)
				})
			}
		}
	}
}

// Workers die behind random effects, in all ways, again and again. What recovery met is
// counted: a case that it did not meet is not tested.
func TestLogSurvivesStorm(t *testing.T) {
	t.Parallel()
	var total storm
	for round := range scaled(3, 40) {
		s := newStorm(t, 4<<20, round%2 == 0)
		random := rand.New(rand.NewPCG(uint64(round), 7))
		for !s.ended() && len(s.faults) == 0 && s.deaths < 60 {
			s.worker(t, fmt.Sprintf("%d,%s", 1+random.IntN(300), []string{"kill", "panic", "segv"}[random.IntN(3)]), "")
		}
		for !s.ended() && len(s.faults) == 0 {
			s.worker(t, "", "")
		}
		s.finish(t)
		s.report(t)
		total.add(s)
	}
	t.Logf("%d deaths, %d repairs, %d empty blocks, %d segments in spool files, %d of them not needed there, %d entries read again",
		total.deaths, total.repairs, total.empties, total.spooled, total.unused, total.reread)
	if total.deaths == 0 || total.repairs == 0 || total.spooled == 0 || total.unused == 0 || total.reread == 0 {
		t.Error("a case is not tested")
	}
}

func (s *storm) add(o *storm) {
	s.deaths += o.deaths
	s.repairs += o.repairs
	s.empties += o.empties
	s.unused += o.unused
	s.spooled += o.spooled
	s.reread += o.reread
}

// Mistakes that would lose or change output are found by the same comparison. A death does not always show them, so there are
// several attempts.
func TestPlantedFaultsAreFound(t *testing.T) {
	t.Parallel()
	for fault, spec := range map[string]string{
		"read and append": "outlog.splice:3,kill",
		"two stores":      "outlog.count:3,kill",
		"no repair":       "outlog.splice:3,panic",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			for range 20 {
				if faults := faultsOf(t, fault, spec); len(faults) > 0 {
					t.Logf("found %d faults, the first: %.300s", len(faults), faults[0])
					return
				}
			}
			t.Error("the mistake was not found")
		})
	}
}

// faultsOf returns what is wrong with the logs of workers that make a mistake and die.
func faultsOf(t *testing.T, mistake, spec string) []string {
	s := newStorm(t, 2<<20, false)
	for range 40 {
		if len(s.faults) > 0 || s.worker(t, spec, mistake) {
			break
		}
	}
	if s.deaths == 0 {
		t.Error("no worker died")
	}
	for !s.ended() && len(s.faults) == 0 {
		s.worker(t, "", "")
	}
	s.finish(t)
	return s.faults
}

func (s *storm) ended() bool {
	for _, l := range s.logs {
		if !l.ended {
			return false
		}
	}
	return true
}

func (s *storm) report(t *testing.T) {
	t.Helper()
	for i, fault := range s.faults {
		if i == 5 {
			t.Errorf("and %d more faults", len(s.faults)-i)
			break
		}
		t.Error(fault)
	}
}
