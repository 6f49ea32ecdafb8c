package watch

import (
	"encoding/binary"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
)

// maxInotify bounds the watches of one connection: each path needs one per
// directory above it; common directories count once.
const maxInotify = 1024

// eventBuffer has room for several events with the longest names.
const eventBuffer = 16 << 10

const (
	// namesMask has the events about names in a directory.
	namesMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	// lostMask has the events after which a watch knows nothing: the queue
	// overflowed, or the watched file is gone.
	lostMask = unix.IN_Q_OVERFLOW | unix.IN_IGNORED | unix.IN_UNMOUNT | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
)

// An inotifyWatch is a watch on Linux.
type inotifyWatch struct {
	file *os.File // the inotify descriptor, in the poller
	over atomic.Bool
	// nodes are the watched files and directories by watch descriptor. They
	// are complete before the goroutine starts.
	nodes map[int32]*node
}

// A node is a watched file or directory.
type node struct {
	names map[string]bool // entries whose creation or removal fires the watch
	stamp *stamp          // must not change; nil: ignored
	path  string
}

// start sets up a watch. Its goroutine ends when the watch fires or is
// cancelled.
func start(missing []string, present string, changed func(), running *sync.WaitGroup) (watch, error) {
	w, err := newWatch(missing, present)
	if err != nil {
		return nil, err
	}
	running.Go(func() { // ends with file
		if w.wait() && w.over.CompareAndSwap(false, true) {
			w.file.Close() // no data can be lost
			changed()
		}
	})
	return w, nil
}

func newWatch(missing []string, present string) (*inotifyWatch, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &inotifyWatch{file: os.NewFile(uintptr(fd), "inotify"), nodes: map[int32]*node{}}
	if err := w.install(fd, missing, present); err != nil {
		w.file.Close() // no data can be lost
		return nil, err
	}
	return w, nil
}

func (w *inotifyWatch) cancel() {
	if w.over.CompareAndSwap(false, true) {
		w.file.Close() // ends wait
	}
}

// lookedAt is a hook of tests, which change paths between the look and the
// watch.
var lookedAt = func(path string) {}

// install watches the paths. It sets the watches first, on the same files that it
// has looked at, and then looks at everything once more. The second look finds an
// earlier change, and a later change is an event.
func (w *inotifyWatch) install(fd int, missing []string, present string) error {
	var first []*chain
	for i := range 2 {
		for j, path := range targets(missing, present) {
			wantPresent := j == len(missing)
			c, err := follow(path, wantPresent)
			if err != nil {
				return err
			}
			if i == 0 {
				lookedAt(path)
				err = w.add(fd, c)
				first = append(first, c)
			} else if !first[j].same(c) {
				err = errChanged
			}
			c.close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func targets(missing []string, present string) []string {
	if present == "" {
		return missing
	}
	return append(append([]string(nil), missing...), present)
}

// add watches a chain: in each directory the next name of the chain, and the last
// component itself.
func (w *inotifyWatch) add(fd int, c *chain) error {
	for i, l := range c.links {
		mask := uint32(0)
		if l.next != "" {
			mask = namesMask | unix.IN_ONLYDIR
		}
		last := i == len(c.links)-1
		if last {
			mask |= unix.IN_ATTRIB
			if c.present && !l.stamp.isDir() {
				mask |= unix.IN_MODIFY
			}
		}
		wd, err := unix.InotifyAddWatch(fd, at.ProcPath(l.fd), mask|unix.IN_MASK_ADD)
		if err != nil {
			return os.NewSyscallError("inotify_add_watch", err)
		}
		n := w.nodes[int32(wd)]
		if n == nil {
			if len(w.nodes) == maxInotify {
				return errTooMany
			}
			n = &node{names: map[string]bool{}, path: l.path}
			w.nodes[int32(wd)] = n
		}
		if l.next != "" {
			n.names[l.next] = true
		}
		if last {
			n.watchStamp(l.stamp, c.present)
		}
	}
	return nil
}

// watchStamp notes the state that must not change. Times and size count only
// for the present path: those of a directory change with any of its entries.
func (n *node) watchStamp(s stamp, present bool) {
	if !present && n.stamp != nil {
		return
	}
	if !present {
		s = s.rights()
	}
	n.stamp = &s
}

// wait reports whether the watch has fired; false means cancelled.
func (w *inotifyWatch) wait() bool {
	buffer := make([]byte, eventBuffer)
	for {
		n, err := w.file.Read(buffer)
		if err != nil {
			return !w.over.Load() // if the queue cannot be read, events may be lost
		}
		if w.anyMatters(buffer[:n]) {
			return true
		}
	}
}

// anyMatters reports whether an event in a buffer fires the watch.
func (w *inotifyWatch) anyMatters(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		if size > len(events) || w.matters(events[:size]) {
			return true
		}
		events = events[size:]
	}
	return false
}

// matters reports whether one struct inotify_event fires the watch.
func (w *inotifyWatch) matters(event []byte) bool {
	wd := int32(binary.NativeEndian.Uint32(event))
	mask := binary.NativeEndian.Uint32(event[4:])
	name := strings.TrimRight(string(event[unix.SizeofInotifyEvent:]), "\x00")
	n := w.nodes[wd]
	switch {
	case mask&lostMask != 0 || n == nil:
		return true
	case mask&namesMask != 0:
		return n.names[name]
	case mask&unix.IN_MODIFY != 0:
		return name == "" // in a directory the event is about a child
	case mask&unix.IN_ATTRIB != 0:
		return name == "" && n.changed()
	}
	return false
}

// changed reports whether an attribute that matters has changed. Reading a file
// or linking to it does not count.
func (n *node) changed() bool {
	if n.stamp == nil {
		return false
	}
	now, err := stampOf(n.path)
	return err != nil || n.stamp.differs(now)
}
