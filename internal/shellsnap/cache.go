package shellsnap

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// MaxSnapshots is how many snapshots a cache keeps, including failed captures. It
// forgets the least recently used one.
const MaxSnapshots = 16

// A Cache keeps the snapshots of one session.
type Cache struct {
	ctx      context.Context
	cancel   context.CancelFunc
	log      *slog.Logger
	captures sync.WaitGroup // one goroutine per running capture

	mu      sync.Mutex
	closed  bool
	entries map[string]*capture
	uses    uint64 // counts calls, to find the least recently used entry
}

// A capture is the state of a shell that is being captured, or was.
type capture struct {
	done     chan struct{} // closed when snapshot is set
	snapshot *Snapshot     // nil: the shell has none

	used     uint64 // guarded by the cache
	finished bool   // guarded by the cache: the capture is done
}

// NewCache returns an empty cache. Close it.
func NewCache(log *slog.Logger) *Cache {
	c := &Cache{log: log, entries: map[string]*capture{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Get returns the snapshot for a key, nil if there is none. The first call for a
// key captures shell. Other calls wait for that, but not longer than ctx. A shell
// that cannot be captured is not tried again.
func (c *Cache) Get(ctx context.Context, key string, shell *Shell) *Snapshot {
	e := c.entry(key, shell)
	if e == nil {
		return nil
	}
	select {
	case <-e.done:
		return e.snapshot
	case <-ctx.Done():
		return nil
	}
}

// entry returns the entry for a key, or begins a capture; nil if there is no room.
func (c *Cache) entry(key string, shell *Shell) *capture {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.uses++
	if e := c.entries[key]; e != nil {
		e.used = c.uses
		return e
	}
	if c.closed || !c.makeRoomLocked() {
		return nil
	}
	e := &capture{done: make(chan struct{}), used: c.uses}
	c.entries[key] = e
	c.captures.Go(func() { c.fill(key, e, shell) }) // ends with the shell, or with the cache
	return e
}

// makeRoomLocked forgets one entry if there are too many. Running captures stay.
func (c *Cache) makeRoomLocked() bool {
	if len(c.entries) < MaxSnapshots {
		return true
	}
	var oldest string
	for key, e := range c.entries {
		if e.finished && (oldest == "" || e.used < c.entries[oldest].used) {
			oldest = key
		}
	}
	delete(c.entries, oldest)
	return oldest != ""
}

// fill captures a shell.
func (c *Cache) fill(key string, e *capture, shell *Shell) {
	snapshot, finish, err := shell.capture(c.ctx)
	if err != nil {
		c.log.Info("a login shell has no snapshot", "shell", shell.Path, "err", err)
	}
	c.mu.Lock()
	e.snapshot, e.finished = snapshot, true
	if errors.Is(err, ErrNotStarted) && c.entries[key] == e {
		delete(c.entries, key) // what prevented the start may be different next time
	}
	c.mu.Unlock()
	close(e.done)
	finish()
}

// Close ends all captures and forgets all snapshots. It returns when the shells
// have ended.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	clear(c.entries)
	c.mu.Unlock()
	c.cancel()
	c.captures.Wait()
}
