//go:build amd64 || arm64

package keep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/crash"
)

const (
	// maxQuestions bounds the questions to the keeper that are not answered, so that its answers always have room in the queue.
	maxQuestions = 64
	// lazyTime is how long a message that is not urgent waits until this process rings for the keeper, which then takes all that
	// have gathered. The start of a command is over by then, so the keeper does not compete with it for a processor.
	lazyTime = 20 * time.Millisecond
	// maxUnread is how many messages may gather. The queue has room for some 270.
	maxUnread = 100
	// sendPause is how long a message that finds no room waits until the keeper has looked at its queue, in milliseconds.
	sendPause = 5
)

// points are behind the lasting effects of a worker: its messages by their kind, and 0 for the bell.
var points = func() (points [maxKind]*crash.Point) {
	points[0] = crash.NewPoint("keep.bell")
	for kind, m := range messages {
		if m.from == "worker" {
			points[kind] = crash.NewPoint("keep." + m.name)
		}
	}
	return points
}()

// A Worker is the connection of this process to its keeper. A message is safe as soon as its method has returned: the
// keeper handles it even if this process dies then. All methods may be called concurrently; messages of one
// goroutine keep their order.
type Worker struct {
	file      *os.File // the socket, for the poller
	conn      syscall.RawConn
	socket    int
	bell      int
	keeper    int    // its pid
	in        packet // used by Receive, and then by the goroutine of Serve
	limit     int    // of descriptors; set by Receive
	questions chan struct{}
	asking    sync.Mutex // one Upgrade or Renew at a time
	verdicts  chan verdict
	reader    sync.WaitGroup

	mu      sync.Mutex // guards the fields below, and the order of messages
	out     packet
	unread  int           // messages since the bell was rung
	later   *time.Timer   // rings
	held    map[int32]int // descriptors by slot
	total   int
	token   int32
	waiting map[int32]chan Exit
	lost    error // the keeper is gone
}

type verdict struct {
	question kind
	cause    Cause
	detail   int
}

// Connect returns the connection to the keeper that has started this process as a worker. Call it once.
func Connect() (*Worker, error) {
	kind, err := unix.GetsockoptInt(firstPassed, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_SEQPACKET {
		return nil, errors.New("this process was not started by a keeper")
	}
	unix.CloseOnExec(firstPassed)
	unix.CloseOnExec(firstPassed + 1)
	os.WriteFile("/proc/self/comm", []byte("tether"), 0) // instead of the number of a descriptor; nothing depends on it
	w := &Worker{
		file:      os.NewFile(firstPassed, "keeper"),
		socket:    firstPassed,
		bell:      firstPassed + 1,
		keeper:    os.Getppid(),
		questions: make(chan struct{}, maxQuestions),
		verdicts:  make(chan verdict, 1),
		held:      make(map[int32]int),
		waiting:   make(map[int32]chan Exit),
	}
	w.later = time.AfterFunc(math.MaxInt64, w.ringLate)
	w.conn, err = w.file.SyscallConn()
	continueWithoutKeeper()
	return w, err
}

// Receive waits for the keeper's order, and returns the descriptors that came with it. They belong to the caller. If
// prove is set, this process is a spare: it checks the state without changing anything, calls Ready, and
// calls Receive again, which then returns all descriptors anew.
func (w *Worker) Receive() (held []Held, order Order, prove bool, err error) {
	place := make(map[[2]int32]int)
	for {
		kind, words, fds, err := w.next()
		if err != nil {
			return held, order, false, fmt.Errorf("receive from the keeper: %w", err)
		}
		f := w.in.words[1 : 1+words]
		switch {
		case kind == msgGive && words == 2*fds:
			for i, fd := range w.in.fds[:fds] {
				h := Held{f[2*i], f[2*i+1], int(fd)}
				if at, twice := place[[2]int32{h.Slot, h.Which}]; twice {
					unix.Close(held[at].FD)
					held[at] = h
					continue
				}
				place[[2]int32{h.Slot, h.Which}] = len(held)
				held = append(held, h)
			}
		case kind == msgGive:
			return held, order, false, fmt.Errorf("receive from the keeper: %d of %d descriptors: %w", fds, words/2, unix.EMFILE)
		case kind == msgProve:
			return held, order, true, nil
		case kind == msgServe && kind.wellFormed("keeper", words, fds):
			for _, h := range held {
				w.held[h.Slot]++
			}
			w.total, w.limit = len(held), int(f[3])
			return held, Order{
				Number: int(f[1]), Deaths: int(f[2]), Limit: int(f[3]),
				Beat:      time.Duration(f[4]) * time.Millisecond,
				Probation: time.Duration(f[5]) * time.Millisecond,
				Cause:     Cause(f[6]), Detail: int(f[7]), Died: int(f[8]),
			}, false, nil
		}
	}
}

// next waits for a message.
func (w *Worker) next() (kind kind, words, fds int, err error) {
	werr := w.conn.Read(func(uintptr) bool {
		for {
			kind, words, fds, err = w.in.receive(w.socket, unix.MSG_CMSG_CLOEXEC)
			if err != unix.EINTR && err != unix.ECONNRESET {
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case werr != nil:
		return 0, 0, 0, werr
	case err == nil && kind == 0:
		return 0, 0, 0, io.EOF
	}
	return kind, words, fds, err
}

// Serve begins to read the keeper's messages, until Close. Call it after the order to serve.
func (w *Worker) Serve(events Events) {
	w.reader.Go(func() { // ends with Close, or with the keeper
		for {
			kind, words, fds, err := w.next()
			if err != nil {
				w.end(err)
				if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, os.ErrClosed) {
					events.Lost(err)
				}
				return
			}
			if kind.wellFormed("keeper", words, fds) {
				w.handle(events, kind, w.in.words[1:1+words])
			}
		}
	})
}

func (w *Worker) handle(events Events, k kind, f []int32) {
	switch k {
	case msgExit:
		w.mu.Lock()
		answer := w.waiting[f[1]]
		delete(w.waiting, f[1])
		w.mu.Unlock()
		if answer != nil {
			answer <- Exit{Child: f[2] != stateUnknown, Ended: f[2] == stateEnded, Status: int(f[3]), Used: usageIn(f[4:])}
		}
	case msgEnded:
		pids := make([]int, len(f))
		for i, pid := range f {
			pids[i] = int(pid)
		}
		events.Ended(pids)
	case msgMissed:
		events.Missed(f[0], f[1])
	case msgDrain:
		events.Drain(time.Duration(f[0]) * time.Millisecond)
	case msgReload:
		events.Reload()
	case msgVerdict:
		select { // an answer that nothing waits for is dropped
		case w.verdicts <- verdict{kind(f[0]), Cause(f[1]), int(f[2])}:
		default:
		}
	}
}

// end fails all that wait for an answer.
func (w *Worker) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = fmt.Errorf("the keeper is gone: %w", err)
	for token, answer := range w.waiting {
		close(answer)
		delete(w.waiting, token)
	}
	close(w.verdicts)
}

// Close ends the connection. The keeper takes it for the death of this process, and kills it.
func (w *Worker) Close() error {
	w.file.SetReadDeadline(time.Unix(1, 0))
	w.reader.Wait()
	w.later.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	unix.Close(w.bell)
	w.bell = -1
	return w.file.Close()
}

// Hold lets the keeper hold copies of descriptors. A descriptor with the same slot and number is replaced.
func (w *Worker) Hold(held ...Held) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total+len(held) > w.limit {
		return fmt.Errorf("the keeper holds %d descriptors of %d: %w", w.total, w.limit, ErrFull)
	}
	for len(held) > 0 {
		part := held[:min(len(held), maxDescriptors)]
		held = held[len(part):]
		for i, h := range part {
			w.out.words[1+2*i], w.out.words[2+2*i], w.out.fds[i] = h.Slot, h.Which, int32(h.FD)
		}
		if err := w.sendLocked(msgHold, 2*len(part), len(part)); err != nil {
			return err
		}
		for _, h := range part {
			w.held[h.Slot]++
		}
		w.total += len(part)
	}
	return nil
}

// Drop closes the keeper's copy of a descriptor now. A command that reads to the end of its input, for example, waits
// for that.
func (w *Worker) Drop(slot, which int32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held[slot] > 0 {
		w.held[slot]--
		w.total--
	}
	return w.tellLocked(true, msgDrop, slot, which)
}

// Free closes all descriptors of a slot. Then the slot may be used again.
func (w *Worker) Free(slot int32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total -= w.held[slot]
	delete(w.held, slot)
	return w.tellLocked(false, msgFree, slot)
}

// Status asks the keeper how its child has ended. The child is not reaped.
func (w *Worker) Status(ctx context.Context, pid int) (Exit, error) {
	select {
	case w.questions <- struct{}{}:
		defer func() { <-w.questions }()
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
	answer := make(chan Exit, 1)
	w.mu.Lock()
	w.token++
	token := w.token
	err := w.lost
	if err == nil {
		w.waiting[token] = answer
		err = w.tellLocked(true, msgStatus, int32(pid), token)
	}
	w.mu.Unlock()
	if err != nil {
		return Exit{}, err
	}
	select {
	case exit, ok := <-answer:
		if !ok {
			return Exit{}, w.gone()
		}
		return exit, nil
	case <-ctx.Done():
		w.mu.Lock()
		delete(w.waiting, token)
		w.mu.Unlock()
		return Exit{}, context.Cause(ctx)
	}
}

func (w *Worker) gone() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// Reap says that the exit of a child of the keeper is recorded, or of no interest.
func (w *Worker) Reap(pid int) error { return w.tell(msgReap, int32(pid)) }

// Ready says that this worker serves or, of a spare, that it could.
func (w *Worker) Ready() error { return w.tellNow(msgReady) }

// Beat is a sign of life. Call it at least every third of Order.Beat, from a place that a stuck worker does not reach.
func (w *Worker) Beat() error { return w.tell(msgBeat) }

// Leave says that a process outlives the server: the keeper does not end it with the others. Only the last one that was named counts.
func (w *Worker) Leave(pid int) error { return w.tell(msgLeave, int32(pid)) }

// Bye says that the server ends: the keeper ends after this process, with its exit status.
func (w *Worker) Bye() error { return w.tellNow(msgBye) }

// OpenProgram opens a program for Upgrade.
func OpenProgram(name string) (*os.File, error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
		err = fmt.Errorf("%s is not a program", name)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Upgrade asks the keeper to replace this worker by another program. It returns if that has failed; otherwise Events.Drain is
// called.
func (w *Worker) Upgrade(ctx context.Context, program *os.File) error {
	return w.ask(ctx, msgUpgrade, int(program.Fd()))
}

// Renew asks the keeper to replace itself, in place, by the program of this worker.
func (w *Worker) Renew(ctx context.Context) error { return w.ask(ctx, msgRenew, -1) }

func (w *Worker) ask(ctx context.Context, question kind, fd int) error {
	w.asking.Lock()
	defer w.asking.Unlock()
	select { // a verdict that no call has waited for
	case <-w.verdicts:
	default:
	}
	w.mu.Lock()
	fds := 0
	if fd >= 0 {
		w.out.fds[0], fds = int32(fd), 1
	}
	err := w.lost
	if err == nil {
		err = w.sendLocked(question, 0, fds)
	}
	if err == nil {
		w.ringLocked()
	}
	w.mu.Unlock()
	if err != nil {
		return err
	}
	for {
		select {
		case v, ok := <-w.verdicts:
			switch {
			case !ok:
				return w.gone()
			case v.question != question: // of an earlier question that was given up, or of the keeper's own
			case v.cause == Done:
				return nil
			default:
				return &RefusedError{v.cause, v.detail}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *Worker) tell(k kind, fields ...int32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tellLocked(false, k, fields...)
}

func (w *Worker) tellNow(k kind, fields ...int32) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tellLocked(true, k, fields...)
}

// tellLocked sends a message without descriptors. With now, the keeper looks at it at once.
func (w *Worker) tellLocked(now bool, k kind, fields ...int32) error {
	copy(w.out.words[1:], fields)
	err := w.sendLocked(k, len(fields), 0)
	if err == nil && now {
		w.ringLocked()
	}
	return err
}

// sendLocked sends the message in w.out. If the queue is full, it waits until the keeper has looked at it.
func (w *Worker) sendLocked(k kind, words, fds int) error {
	for {
		err := w.out.send(w.socket, k, words, fds)
		switch err {
		case nil:
			points[k].Passed()
			switch w.unread++; w.unread {
			case 1:
				w.later.Reset(lazyTime)
			case maxUnread:
				w.ringLocked()
			}
			return nil
		case unix.EAGAIN, unix.ETOOMANYREFS:
			w.ringLocked()
			events := []unix.PollFd{{Fd: int32(w.socket), Events: unix.POLLOUT}}
			if err == unix.ETOOMANYREFS { // too many descriptors are on their way; the socket is not full
				events = nil
			}
			unix.Poll(events, sendPause)
		default:
			return fmt.Errorf("send %s to the keeper: %w", messages[k].name, err)
		}
	}
}

// ringLocked lets the keeper look at its queue now.
func (w *Worker) ringLocked() {
	one := [8]byte{1}
	w.unread = 0
	unix.Write(w.bell, one[:])
	points[0].Passed()
}

// ringLate lets the keeper look at messages that have waited for long enough.
func (w *Worker) ringLate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unread > 0 {
		w.ringLocked()
	}
}
