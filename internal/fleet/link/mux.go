package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tetherexec/tether/internal/fleet"
)

const (
	// DefaultWindow is how many bytes of one direction may be on the way.
	DefaultWindow = 1 << 20
	minWindow     = 64 << 10
	maxWindow     = 16 << 20

	// maxData is the most bytes of a stream in one frame.
	maxData = 256 << 10

	// maxNote and maxNotes limit the messages beside a stream: the length of one, and how many wait for the reader.
	maxNote  = 4 << 10
	maxNotes = 16

	// checkInterval is the time between two ticks of a link. So a loss is found even if nothing follows it; see Link.tick.
	checkInterval = 20 * time.Second
)

// Config says how a Mux uses the bus.
type Config struct {
	// Publish publishes a frame. It does not keep the frame.
	Publish func(subject string, frame []byte) error
	// MaxFrame is the largest message that the bus carries now; 0: not known. May be nil.
	MaxFrame func() int64
	MaxLinks int
	// Accept is called with each new link that the other end has opened, in the order of frames, and must not wait. If it is nil,
	// only this end opens links.
	Accept func(l *Link, open []byte)
	Log    *slog.Logger // nil: nothing is logged
}

// A Mux has the links of one gateway or host.
type Mux struct {
	config Config

	mu     sync.Mutex
	links  map[string]*Link    // by the subject of the frames that arrive
	untold map[string]struct{} // subjects of links whose end could not be published, because the bus was away
	closed bool
}

// NewMux returns a Mux without links.
func NewMux(c Config) *Mux {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return &Mux{config: c, links: map[string]*Link{}, untold: map[string]struct{}{}}
}

// ErrTooMany means that the Mux has as many links as it may have.
var ErrTooMany = errors.New("limit reached: links")

// Open opens a link. open tells the other end what the link is for; publish sends it, because it may need a subject for answers.
// Frames for the link may arrive before Open has returned.
func (m *Mux) Open(s fleet.LinkSubject, window int, open []byte, publish func(subject string, frame []byte) error) (*Link, error) {
	l := newLink(m, s.Back().String(), s.String(), window)
	if err := m.add(l); err != nil {
		return nil, err
	}
	if err := publish(l.out, append([]byte{byte(frameOpen)}, open...)); err != nil {
		m.remove(l)
		return nil, err
	}
	return l, nil
}

// maxData is the most bytes of a stream that fit into one frame.
func (m *Mux) maxData() int {
	if m.config.MaxFrame == nil {
		return maxData
	}
	if n := m.config.MaxFrame(); n > headerSize && n < headerSize+maxData {
		return int(n) - headerSize
	}
	return maxData
}

func (m *Mux) add(l *Link) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return context.Canceled
	case len(m.links) >= m.config.MaxLinks:
		return fmt.Errorf("%w (%d)", ErrTooMany, m.config.MaxLinks)
	case m.links[l.in] != nil:
		return errors.New("the link exists")
	}
	m.links[l.in] = l
	return nil
}

func (m *Mux) remove(l *Link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.links[l.in] == l {
		delete(m.links, l.in)
	}
}

func (m *Mux) find(subject string) *Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.links[subject]
}

// Get returns the link whose frames arrive with a subject; nil if there is none.
func (m *Mux) Get(s fleet.LinkSubject) *Link { return m.find(s.String()) }

// Len is how many links there are.
func (m *Mux) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.links)
}

// Receive takes a frame that has arrived. It keeps b.
func (m *Mux) Receive(subject string, b []byte) {
	f, err := parse(b)
	l := m.find(subject)
	switch {
	case l != nil && err != nil:
		l.Abort(Misused, err.Error())
	case l != nil:
		l.receive(f)
	case err != nil:
	case f.kind == frameOpen && m.config.Accept != nil:
		m.accept(subject, f.rest)
	case f.kind == frameData || f.kind == frameFin || f.kind == frameCheck:
		m.disown(subject, Unknown, "the other end does not know the connection")
	}
}

// accept makes the link that the other end has opened.
func (m *Mux) accept(subject string, open []byte) {
	s, ok := fleet.ParseLink(subject)
	if !ok {
		return
	}
	l := newLink(m, subject, s.Back().String(), DefaultWindow)
	if err := m.add(l); err != nil {
		m.config.Log.Warn("a link is refused", "gateway", s.Gateway, "err", err)
		m.disown(subject, Refused, err.Error())
		return
	}
	m.config.Accept(l, open)
}

// disown tells the other end of a link that this end does not have that it has ended.
func (m *Mux) disown(subject string, code Code, reason string) {
	if s, ok := fleet.ParseLink(subject); ok {
		_ = m.config.Publish(s.Back().String(), appendClose(nil, &EndError{code, reason})) // if the bus is away, the other end finds out later
	}
}

// all returns the links.
func (m *Mux) all() []*Link {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*Link, 0, len(m.links))
	for _, l := range m.links {
		list = append(list, l)
	}
	return list
}

// CheckAll finds the links that have lost something. It is called when the connection to the bus was interrupted, or messages were
// dropped.
func (m *Mux) CheckAll() {
	m.mu.Lock()
	untold := m.untold
	m.untold = map[string]struct{}{}
	m.mu.Unlock()
	for subject := range untold {
		m.tellEnd(subject, &EndError{Lost, "the bus was interrupted"})
	}
	for _, l := range m.all() {
		l.check(true, true)
	}
}

// tellEnd publishes that a link has ended, now or when the bus is back.
func (m *Mux) tellEnd(subject string, e *EndError) {
	if err := m.config.Publish(subject, appendClose(nil, e)); err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.untold) < m.config.MaxLinks {
		m.untold[subject] = struct{}{}
	}
}

// Run checks the links now and then, until ctx ends.
func (m *Mux) Run(ctx context.Context) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.tick()
		case <-ctx.Done():
			return
		}
	}
}

func (m *Mux) tick() {
	for _, l := range m.all() {
		l.tick()
	}
}

// Close ends all links. No others can be opened.
func (m *Mux) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	for _, l := range m.all() {
		l.Close()
	}
}
