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
	// captureTime bounds a capture: start-up files may wait for something that
	// never comes.
	captureTime = 10 * time.Second

	// maxOutput is the most that a capturing shell may print before the end of its
	// state, and so the size of a snapshot.
	maxOutput = 1 << 20

	// lateOutput is how long after the shell's exit the rest of its output is
	// awaited, if something else keeps its output open.
	lateOutput = time.Second
)

var (
	// ErrNotStarted means that the capturing shell could not be executed. The
	// command itself will say why.
	ErrNotStarted = errors.New("the shell could not be started")

	errTime = errors.New("the shell was not ready in time")
	errSize = fmt.Errorf("the shell printed more than %d bytes", maxOutput)
)

// A Shell is a login shell that can be captured.
type Shell struct {
	Kind Kind
	Path string
	Env  []string // what it starts with

	Time time.Duration // the most that a capture may take; 0: captureTime

	// Start starts a command the way that this shell is started, with nothing on its
	// standard input and without a terminal.
	Start func(ctx context.Context, argv []string, sink proc.Sink) (*proc.Process, error)

	// Left takes what a capture has started and may still be running, such as an
	// agent in the background. It is called once the shell itself has exited.
	Left func(*proc.Process)
}

// capture runs the shell and returns its state. finish must be called then: it
// returns when the shell is gone.
func (s *Shell) capture(ctx context.Context) (snapshot *Snapshot, finish func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(s.Time, captureTime), errTime)
	mark := "tether-" + rand.Text()
	r := &recording{end: []byte(heading(mark, sectionEnd)), ready: make(chan struct{}), exited: make(chan struct{})}
	process, err := s.Start(ctx, []string{s.Path, "-lc", captureScript(s.Kind, mark)}, r)
	if err != nil {
		return nil, cancel, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	finish = func() {
		defer cancel()
		select {
		case <-r.exited:
			s.Left(process)
		case <-ctx.Done():
			process.Kill()
		}
	}
	if err := r.await(ctx); err != nil {
		return nil, finish, err
	}
	snapshot, err = parse(s.Kind, mark, s.Env, r.output)
	return snapshot, finish, err
}

// A recording is the [proc.Sink] of a capture. It has all that it needs before the
// output ends: what start-up files have put into the background may keep that open.
type recording struct {
	end []byte // what comes last

	mu     sync.Mutex
	output []byte // to be read when ready is closed
	over   bool   // ready is closed
	err    error

	ready, exited chan struct{}
}

var errEnough = errors.New("the rest is of no interest")

// Append implements proc.Sink.
func (r *recording) Append(stream outlog.Stream, p []byte) error {
	if stream != outlog.Stdout {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return errEnough
	}
	from := max(0, len(r.output)-len(r.end))
	r.output = append(r.output, p...)
	switch {
	case bytes.Contains(r.output[from:], r.end):
		r.overLocked(nil)
	case len(r.output) > maxOutput:
		r.overLocked(errSize)
	default:
		return nil
	}
	return errEnough
}

func (r *recording) overLocked(err error) {
	if !r.over {
		r.over, r.err = true, err
		close(r.ready)
	}
}

// Exit implements proc.Sink.
func (r *recording) Exit(int) { close(r.exited) }

// Cut implements proc.Sink.
func (r *recording) Cut() {}

// Close implements proc.Sink.
func (r *recording) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.overLocked(errIncomplete)
}

// await returns when the output is complete, or will not be.
func (r *recording) await(ctx context.Context) error {
	select {
	case <-r.ready:
	case <-r.exited:
		select {
		case <-r.ready:
		case <-ctx.Done():
		case <-time.After(lateOutput):
		}
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over && ctx.Err() != nil {
		r.overLocked(context.Cause(ctx))
	}
	r.overLocked(errIncomplete)
	return r.err
}
