package client

import (
	"maps"
	"slices"
	"sort"

	"github.com/tetherexec/tether/wire"
)

// Limits of the events that wait for an earlier event of their process.
const (
	maxEarly      = 256
	maxEarlyBytes = 1 << 20

	// maxChunk is the most output in one event.
	maxChunk = 1 << 20
)

// An EventKind is the kind of an event of a process.
type EventKind uint8

// The kinds of events.
const (
	Output EventKind = iota + 1 // Stream and Data
	Exited                      // ExitCode, SandboxDenied, Denial and Usage; output may still follow
	Closed                      // Survivors; nothing follows
	Gap                         // the events from First to Seq are lost
)

// An Event is output, the exit or the end of a process. The events of a process are numbered
// from 1 without gaps; a Gap stands for events that are lost.
type Event struct {
	Kind EventKind
	Seq  uint64

	Stream string // wire.StreamStdout, StreamStderr or StreamPTY
	Data   []byte // not to be changed

	ExitCode      int
	SandboxDenied bool             // the sandbox probably caused the failure
	Denial        *wire.DenialFact // the details of that, as far as they are known; may be nil
	Limit         *string          // the limit because of which the server has ended the command, such as wire.LimitTimeMs; nil: none
	Failure       *string          // why the exit code is not the command's own; nil: it is
	verdictKnown  bool             // the server has set SandboxDenied
	Usage         *wire.Usage      // what the command has used; nil: the server does not say

	Survivors []wire.Survivor // processes of the command that were killed and are still there

	First uint64 // of a Gap

	end uint64 // bytes of output up to here; set by the log
}

// A sequence brings the events of one process into order. Events come from notifications and
// from answers to process/read; they may come early, late and more than once.
type sequence struct {
	last       uint64 // the last event that was published
	highest    uint64 // the highest number that has arrived
	early      map[uint64]Event
	earlyBytes int
	exited     bool // the exit was published or is among the early events
	closed     bool // published
}

// add takes an event from a notification, and publishes it and the early events that follow
// it, if it is the next one. It returns false if too many events wait for a missing one: then
// the event was dropped and has to be read again.
func (s *sequence) add(e Event, publish func(Event)) bool {
	s.highest = max(s.highest, e.Seq)
	switch {
	case e.Seq <= s.last || s.closed:
		return true // known
	case e.Seq == s.last+1:
		s.exited = s.exited || e.Kind == Exited
		s.emit(e, publish)
		s.flush(publish)
		return true
	}
	if _, known := s.early[e.Seq]; known {
		return true
	}
	if len(s.early) >= maxEarly || s.earlyBytes+len(e.Data) > maxEarlyBytes {
		return false
	}
	s.keep(e)
	return true
}

func (s *sequence) keep(e Event) {
	if s.early == nil {
		s.early = make(map[uint64]Event)
	}
	s.early[e.Seq] = e
	s.earlyBytes += len(e.Data)
	s.exited = s.exited || e.Kind == Exited
}

func (s *sequence) emit(e Event, publish func(Event)) {
	s.last = e.Seq
	s.closed = e.Kind == Closed
	if s.closed {
		s.early, s.earlyBytes = nil, 0
	}
	publish(e)
}

// flush publishes early events that are due now.
func (s *sequence) flush(publish func(Event)) {
	for len(s.early) > 0 {
		e, ok := s.early[s.last+1]
		if !ok {
			return
		}
		delete(s.early, e.Seq)
		s.earlyBytes -= len(e.Data)
		s.emit(e, publish)
	}
}

// behind reports whether an event is missing that surely exists.
func (s *sequence) behind() bool { return !s.closed && s.highest > s.last }

// catchUp takes the answer to a read that was sent with afterSeq = last, or less.
// The answer covers all events up to its NextSeq: events that are neither in it nor known
// already are lost, and published as a Gap. An error means that the answer contradicts
// itself or earlier events; then nothing was published.
func (s *sequence) catchUp(r *wire.ReadResult, publish func(Event)) error {
	if r.Failure != nil {
		return protocolError("%s", *r.Failure)
	}
	target := r.NextSeq - 1
	if r.NextSeq == 0 || s.closed || target <= s.last {
		return nil
	}
	found, err := s.collect(r, target)
	if err != nil {
		return err
	}
	s.highest = max(s.highest, target)
	s.publishThrough(target, found, publish)
	s.flush(publish)
	return nil
}

// collect returns the events of an answer, exit and close included, by number.
func (s *sequence) collect(r *wire.ReadResult, target uint64) (map[uint64]Event, error) {
	found := make(map[uint64]Event, len(r.Chunks)+2)
	for _, c := range r.Chunks {
		switch {
		case c.Seq > target:
			return nil, protocolError("recovered process output sequence %d exceeds target sequence %d", c.Seq, target)
		case len(c.Chunk) > maxChunk:
			return nil, protocolError("process event exceeds %d bytes", maxChunk)
		case c.Seq > s.last:
			found[c.Seq] = Event{Kind: Output, Seq: c.Seq, Stream: c.Stream, Data: c.Chunk}
		}
	}
	if r.Closed {
		known, isEarly := s.early[target]
		if _, isChunk := found[target]; isChunk || isEarly && known.Kind != Closed {
			return nil, protocolError("process close sequence %d conflicts with recovered output", target)
		}
		found[target] = Event{Kind: Closed, Seq: target, Survivors: r.TetherSurvivors}
	}
	if !r.Exited {
		return found, nil
	}
	if r.ExitCode == nil {
		return nil, protocolError("recovering exited process did not include its exit code")
	}
	if s.exited {
		s.mergeVerdict(r, target)
		return found, nil
	}
	// The server keeps exit and close for ever and drops output from the front, so
	// the exit is the last number that is missing.
	for seq := target; seq > s.last; seq-- {
		_, isFound := found[seq]
		if _, isEarly := s.early[seq]; !isFound && !isEarly {
			found[seq] = Event{Kind: Exited, Seq: seq, ExitCode: *r.ExitCode, SandboxDenied: r.SandboxDenied, Denial: r.TetherDenial,
				Limit: r.TetherLimit, Failure: r.TetherFailure, verdictKnown: true, Usage: r.TetherUsage}
			return found, nil
		}
	}
	return nil, protocolError("process events are no longer retained while recovering through sequence %d", target)
}

// mergeVerdict adds the verdict of the answer to an exit that waits among the early events.
func (s *sequence) mergeVerdict(r *wire.ReadResult, target uint64) {
	for seq, e := range s.early {
		if e.Kind == Exited && seq <= target {
			e.SandboxDenied = e.SandboxDenied || r.SandboxDenied
			e.verdictKnown = true
			s.early[seq] = e
		}
	}
}

// publishThrough publishes all events up to target, with a Gap for missing ones.
func (s *sequence) publishThrough(target uint64, found map[uint64]Event, publish func(Event)) {
	for seq, e := range s.early {
		if _, ok := found[seq]; !ok && seq <= target {
			found[seq] = e
		}
		if seq <= target {
			delete(s.early, seq)
			s.earlyBytes -= len(e.Data)
		}
	}
	numbers := slices.Collect(maps.Keys(found))
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	for _, seq := range numbers {
		if seq > s.last+1 {
			s.emit(Event{Kind: Gap, First: s.last + 1, Seq: seq - 1}, publish)
		}
		e := found[seq]
		s.exited = s.exited || e.Kind == Exited
		s.emit(e, publish)
		if s.closed {
			return
		}
	}
	if s.last < target {
		s.emit(Event{Kind: Gap, First: s.last + 1, Seq: target}, publish)
	}
}
