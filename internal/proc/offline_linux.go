package proc

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// offlineThreads is how many threads fork into networks without a way out.
const offlineThreads = 2

// offline has threads of the forker that are in networks of their own, which are empty and stay so. A child that may have
// an unused network inherits that of the thread: to make one for each child takes 0.3 ms, and to make and remove it 0.9 ms
// of processor time.
type offline struct {
	once     sync.Once
	requests chan *forkRequest // nil: this program may not make networks
}

// queue returns the channel to the threads that can serve a request.
func (f *forker) queue(r *forkRequest) chan<- *forkRequest {
	if r.first == nil || !r.first.Net || !r.first.NetUnused {
		return f.requests
	}
	f.offline.once.Do(f.goOffline)
	if f.offline.requests == nil {
		return f.requests
	}
	r.shares = unix.CLONE_NEWNET
	return f.offline.requests
}

// goOffline starts the threads. Only the thread that calls unshare gets the new network. The runtime starts no other
// thread from one that a goroutine has locked, so none inherits it.
func (f *forker) goOffline() {
	requests, ready := make(chan *forkRequest), make(chan error)
	for range offlineThreads {
		f.threads.Go(func() { // ends with close, or at once
			runtime.LockOSThread()
			err := unix.Unshare(unix.CLONE_NEWNET)
			ready <- err
			if err == nil {
				f.thread(requests)
			}
		})
		if err := <-ready; err != nil {
			f.host.log.Debug("a thread cannot have a network of its own", "err", err)
			return
		}
		f.offline.requests = requests
	}
}
