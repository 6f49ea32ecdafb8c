package client

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/tetherexec/tether/wire"
)

// Wait returns how the command ended, after its output has ended and each reader and
// subscription has come to its end or was closed. So a copy in another goroutine is
// complete when Wait returns:
//
//	go io.Copy(os.Stdout, p.Output())
//	exit, err := p.Wait(ctx)
//
// If a reader does not read on for 10 s after the end of the output, Wait returns ErrUnread
// together with the exit; a reader in WriteTo, as in io.Copy, may take any time. Without a
// reader, output is thrown away. If the session is lost after the command has exited, Wait
// returns both the exit and the error: output may be missing.
//
// [Process.Result] does not wait for output and readers, and [Process.CopyOutput] needs
// no goroutine.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	p.discardOutput()
	if err := await(ctx, p.end.done); err != nil {
		return Exit{}, err
	}
	unread := p.awaitReaders(ctx)
	if unread != nil && !errors.Is(unread, ErrUnread) {
		return Exit{}, unread
	}
	exit, err := p.Result(ctx)
	return exit, cmp.Or(err, p.Err(), unread)
}

// awaitReaders waits until each subscription is over. If none of them reads on, it returns
// ErrUnread.
func (p *Process) awaitReaders(ctx context.Context) error {
	look := time.NewTicker(p.client.opts.timeouts.unread)
	defer look.Stop()
	seen, _ := p.openReaders()
	for {
		open, changed := p.openReaders()
		if len(open) == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-look.C:
			if !readOn(seen, open) {
				return ErrUnread
			}
			seen = open
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// openReaders returns the subscriptions that are not over, with how often each was used,
// and a channel that is closed when one of them is.
func (p *Process) openReaders() (uses map[*Subscription]uint64, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	uses = make(map[*Subscription]uint64)
	for s := range p.readers.open {
		if !s.over {
			uses[s] = s.uses.Load()
		}
	}
	if p.readers.over == nil {
		p.readers.over = make(chan struct{})
	}
	return uses, p.readers.over
}

// readOn reports whether one of the open subscriptions was used since it was seen.
func readOn(seen, open map[*Subscription]uint64) bool {
	for s, uses := range open {
		if before, known := seen[s]; !known || uses != before || s.copying.Load() {
			return true
		}
	}
	return false
}

// readerOver wakes the calls that wait for readers. The caller has p.mu.
func (p *Process) readerOver() {
	if p.readers.over != nil {
		close(p.readers.over)
		p.readers.over = nil
	}
}

// CopyOutput copies the output of the command to the writers, in the order in which the
// server has read it, and returns how the command ended. The output of a terminal goes
// to stdout; nil discards a stream. If output was lost, CopyOutput continues after the gap
// and returns a *GapError with the exit. If the context ends or a writer fails, copying ends
// and the command goes on.
func (p *Process) CopyOutput(ctx context.Context, stdout, stderr io.Writer) (Exit, error) {
	s := p.Subscribe()
	defer s.Close()
	var lost error
	for {
		e, err := s.Next(ctx)
		switch {
		case err == io.EOF || err != nil && err == p.Err():
			exit, err := p.Result(ctx) // a process that was lost may have exited before
			return exit, cmp.Or(err, p.Err(), lost)
		case err != nil:
			return Exit{}, err
		case e.Kind == Gap:
			lost = cmp.Or[error](lost, &GapError{e.First, e.Seq})
		case e.Kind == Output:
			w := stdout
			if e.Stream == wire.StreamStderr {
				w = stderr
			}
			if w == nil {
				continue
			}
			if _, err := w.Write(e.Data); err != nil {
				return Exit{}, err
			}
		}
	}
}
