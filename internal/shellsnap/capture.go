package shellsnap

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/proc"
)

const (
	// captureTime limits a capture: start-up files may hang.
	captureTime = 10 * time.Second

	// maxOutput is the most that a capturing shell may print before the end of its
	// state. So it limits the size of a snapshot.
	maxOutput = 1 << 20

	// lateOutput is how long after the shell's exit the rest of its output is
	// awaited, if another process keeps the output open.
	lateOutput = time.Second
)

var (
	// ErrNotStarted means that the capturing shell could not be executed. The error
	// of the command itself will say why.
	ErrNotStarted = errors.New("the shell could not be started")

	errTime = errors.New("the shell was not ready in time")
	errSize = fmt.Errorf("the shell printed more than %d bytes", maxOutput)
)

// A Shell is a login shell that can be captured.
type Shell struct {
	Kind Kind
	Path string
	Env  []string // its environment at the start

	Time time.Duration // time limit of a capture; 0: captureTime

	// Start starts a command in the way that this shell is started, with an empty
	// standard input and without a terminal.
	Start func(ctx context.Context, argv []string, sink proc.Sink) (*proc.Process, error)

	// Left takes the processes that a capture has started and that may still be
	// running, such as an agent in the background. It is called once the shell
	// itself has exited.
	Left func(*proc.Process)
}

// capture runs the shell and returns its state. Then finish must be called: it
// returns when the shell has ended.
func (s *Shell) capture(ctx context.Context) (snapshot *Snapshot, finish func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(s.Time, captureTime), errTime)
	mark := "tether-" + rand.Text()
	r := newRecording([]byte(heading(mark, sectionEnd)))
	process, err := s.Start(ctx, []string{s.Path, "-lc", captureScript(s.Kind, mark)}, r)
	if err != nil {
		return nil, cancel, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	finish = func() {
		defer cancel()
		select {
		case <-r.Exited():
			s.Left(process)
		case <-ctx.Done():
			process.Kill()
		}
	}
	if err := r.await(ctx, process); err != nil {
		return nil, finish, err
	}
	output, _ := r.Result()
	snapshot, err = parse(s.Kind, mark, s.Env, output)
	return snapshot, finish, err
}

// A recording collects the state that a shell prints. The state is complete before the
// output ends: processes that start-up files have put into the background may keep
// that open.
type recording struct {
	proc.Capture        // of standard output
	end          []byte // the last bytes of the state

	once  sync.Once
	err   error         // why the state is not complete; set before ready is closed
	ready chan struct{} // closed when the state is complete, or will not be
}

func newRecording(end []byte) *recording {
	r := &recording{end: end, ready: make(chan struct{})}
	r.Limit, r.Only, r.Each = maxOutput+outlog.MaxEntry, outlog.Stdout, r.look
	return r
}

var errEnough = errors.New("the rest is of no interest")

// look stops reading when the state is complete, or too large.
func (r *recording) look(stream outlog.Stream, piece, output []byte) error {
	if stream != outlog.Stdout {
		return nil
	}
	select {
	case <-r.ready:
		return errEnough
	default:
	}
	switch from := len(output) - len(piece) - len(r.end); {
	case bytes.Contains(output[max(0, from):], r.end):
		r.over(nil)
	case len(output) > maxOutput:
		r.over(errSize)
	default:
		return nil
	}
	return errEnough
}

func (r *recording) over(err error) {
	r.once.Do(func() {
		r.err = err
		close(r.ready)
	})
}

// await returns when the state is complete, or will not be.
func (r *recording) await(ctx context.Context, shell *proc.Process) error {
	select {
	case <-r.ready:
	case <-r.Exited():
		select {
		case <-r.ready:
		case <-shell.Done():
		case <-ctx.Done():
		case <-time.After(lateOutput):
		}
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		r.over(context.Cause(ctx))
	}
	r.over(errIncomplete)
	return r.err
}
