package fleettest

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// A Relay passes TCP connections on to one of several addresses in turn, until a test cuts them.
type Relay struct {
	t       testing.TB
	l       net.Listener
	running sync.WaitGroup

	mu      sync.Mutex
	targets []string
	turn    int
	conns   map[net.Conn]string // to the target
	away    bool                // new connections are refused
	passing chan struct{}       // closed while bytes are passed on
	held    int                 // copiers that hold bytes back, or the end of a connection
}

// LayRelay makes a relay. It ends with the test.
func LayRelay(t testing.TB, targets ...string) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relay{t: t, l: l, targets: targets, conns: map[net.Conn]string{}, passing: make(chan struct{})}
	close(r.passing)
	r.running.Go(r.accept) // ends with l
	t.Cleanup(func() {
		l.Close()
		r.Cut()
		r.SetSilent(false)
		r.running.Wait()
	})
	return r
}

// Address is where the relay listens.
func (r *Relay) Address() string { return r.l.Addr().String() }

// URL is the address as that of a gateway.
func (r *Relay) URL() string { return "ws://" + r.Address() }

// Target returns the address of a ws:// URL.
func Target(t testing.TB, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// Cut ends all connections. New ones are passed on, to the next target.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

// CutTo ends the connections to one target.
func (r *Relay) CutTo(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, to := range r.conns {
		if to == target {
			c.Close()
		}
	}
}

// SetTargets changes where new connections are passed on.
func (r *Relay) SetTargets(targets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets = targets
}

// SetSilent holds all bytes back without ending connections, or passes them on again.
func (r *Relay) SetSilent(silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.passing:
		if silent {
			r.passing = make(chan struct{})
		}
	default:
		if !silent {
			close(r.passing)
		}
	}
}

// AwaitHeld waits until a silent relay holds bytes of one direction of a connection back.
func (r *Relay) AwaitHeld() {
	r.t.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		held := r.held
		r.mu.Unlock()
		switch {
		case held > 0:
			return
		case time.Now().After(deadline):
			r.t.Fatal("the relay holds nothing back")
		}
	}
}

// copy copies from one connection to another until one of them ends.
func (r *Relay) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		r.mu.Lock()
		passing := r.passing
		r.held++
		r.mu.Unlock()
		<-passing
		r.mu.Lock()
		r.held--
		r.mu.Unlock()
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// SetAway refuses new connections, or passes them on again.
func (r *Relay) SetAway(away bool) {
	r.mu.Lock()
	r.away = away
	r.mu.Unlock()
	if away {
		r.Cut()
	}
}

func (r *Relay) accept() {
	for {
		c, err := r.l.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.pass(c) })
	}
}

// pass passes one connection on until one of its ends closes it.
func (r *Relay) pass(near net.Conn) {
	defer near.Close()
	r.mu.Lock()
	target := r.targets[r.turn%len(r.targets)]
	r.turn++
	away := r.away
	r.mu.Unlock()
	if away {
		return
	}
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	r.mu.Lock()
	if r.away {
		r.mu.Unlock()
		return
	}
	r.conns[near], r.conns[far] = target, target
	r.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() {
		r.copy(near, far) // ends with either connection
		near.Close()
		far.Close()
	})
	r.copy(far, near)
	near.Close()
	far.Close()
	back.Wait()
	r.mu.Lock()
	delete(r.conns, near)
	delete(r.conns, far)
	r.mu.Unlock()
}
