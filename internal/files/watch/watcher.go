package watch

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/tetherexec/tether/wire"
)

// MaxPaths is the number of missing paths in one watch.
const MaxPaths = 64

// A Watcher holds the watch of one connection. The zero value is ready.
type Watcher struct {
	replacing sync.Mutex // held by Watch and Close while they set up or end a watch

	lastID  uint64
	current watch // nil: none
	closed  bool
	running sync.WaitGroup // the watches' goroutines; Close waits for them
}

// A watch waits for changes on behalf of a Watcher.
type watch interface {
	// cancel ends the watch. It has fired already, or never will.
	cancel()
}

// Watch replaces the connection's watch and reports whether the new one is
// active. If the id is not higher than all earlier ones, the old watch stays.
// After any other refusal there is no watch.
//
// changed is called at most once, on a goroutine of the watcher, and possibly
// before Watch returns.
func (w *Watcher) Watch(p *wire.WatchMissingParams, changed func(watchID uint64)) (watching bool) {
	w.replacing.Lock()
	defer w.replacing.Unlock()
	if w.closed || p.WatchID <= w.lastID {
		return false
	}
	w.lastID = p.WatchID
	w.cancel()
	missing, present, ok := paths(p)
	if !ok {
		return false
	}
	started, err := start(missing, present, func() { changed(p.WatchID) }, &w.running)
	if err != nil {
		return false // the protocol has no field for a reason
	}
	w.current = started
	return true
}

// Close ends the watch and waits until changed is not running any more.
func (w *Watcher) Close() {
	w.replacing.Lock()
	w.closed = true
	w.cancel()
	w.replacing.Unlock()
	w.running.Wait()
}

func (w *Watcher) cancel() {
	if w.current != nil {
		w.current.cancel()
		w.current = nil
	}
}

// paths returns the request's paths as clean native ones; present may be empty.
func paths(p *wire.WatchMissingParams) (missing []string, present string, ok bool) {
	if len(p.Missing) == 0 || len(p.Missing) > MaxPaths {
		return nil, "", false
	}
	for _, uri := range p.Missing {
		path, ok := native(uri)
		if !ok {
			return nil, "", false
		}
		missing = append(missing, path)
	}
	if p.Present != nil {
		present, ok = native(*p.Present)
		return missing, present, ok
	}
	return missing, "", true
}

func native(uri wire.PathURI) (string, bool) {
	path, err := uri.Native()
	if err != nil || strings.ContainsRune(path, 0) {
		return "", false
	}
	return filepath.Clean(path), true
}
