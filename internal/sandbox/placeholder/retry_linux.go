package placeholder

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"
)

// keepIdle notes a registry file that was kept for the next use, and drops
// another one if there are too many.
func (l *Ledger) keepIdle(file string) {
	l.mu.Lock()
	drop := ""
	if l.closed {
		drop = file
	} else {
		l.idle[file] = true
		delete(l.toRetry, file)
	}
	if len(l.idle) > maxIdle {
		for drop = range l.idle { // any
			break
		}
		delete(l.idle, drop)
	}
	l.mu.Unlock()
	if drop != "" {
		l.drop(drop)
	}
}

// drop removes a placeholder and its registry file, if no ledger uses them.
func (l *Ledger) drop(file string) {
	r, err := openRecord(file, 0)
	switch {
	case err == nil:
		l.retire(r, nil, false)
	case !errors.Is(err, fs.ErrNotExist):
		l.log.Warn("placeholder not swept", "err", err)
	}
}

// retryLater notes a registry file whose placeholder another ledger guards.
// After Close, StartSweeper or the next server removes it.
func (l *Ledger) retryLater(file string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.left = true
		return
	}
	l.toRetry[file] = true
	if !l.retrying {
		l.retrying = true
		l.retries.Go(l.keepRetrying)
	}
}

// retry tries to remove the placeholders that other ledgers guarded. Those that
// are still guarded are noted again.
func (l *Ledger) retry() {
	l.mu.Lock()
	files := slices.Collect(maps.Keys(l.toRetry))
	clear(l.toRetry)
	l.mu.Unlock()
	for _, file := range files {
		l.drop(file)
	}
}

// keepRetrying runs as long as there is something to retry. It polls, because
// no event tells when another ledger gives up a guard.
func (l *Ledger) keepRetrying() {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		select {
		case <-l.done:
			return
		case <-time.After(pause):
		}
		l.retry()
		l.mu.Lock()
		if len(l.toRetry) == 0 {
			l.retrying = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}
