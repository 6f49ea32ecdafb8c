package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetherexec/tether/internal/observe"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/search"
	"github.com/tetherexec/tether/wire"
)

// State says what a process is doing at this moment, from what the system shows.
func (s *Session) State(id string) (wire.StateResult, error) {
	p, err := s.find(id)
	if err != nil {
		return wire.StateResult{}, err
	}
	s.mu.Lock()
	listed := Listed{p.infoLocked(), p.child, p.Log}
	s.mu.Unlock()
	return wire.StateResult{State: listed.Info.State, ExitCode: listed.Info.ExitCode, StateDetail: listed.Look()}, nil
}

// Look says what a listed process is doing at this moment.
func (l Listed) Look() wire.StateDetail {
	state, stats := l.log.State(), l.log.Stats()
	spoken := l.Child.StartedAt()
	if !stats.LastEntryTime.IsZero() {
		spoken = stats.LastEntryTime
	}
	if state.Closed {
		now := time.Now()
		return wire.StateDetail{Activity: wire.ActivityEnded, Text: fmt.Sprintf("it has ended with exit code %d", state.ExitCode),
			Source: wire.SourceServer, AsOfMs: now.UnixMilli(), SilentMs: since(spoken, now)}
	}
	evidence := l.Child.Look()
	evidence.Blocked = l.log.Stats().Blocked
	v := observe.Decide(evidence)
	d := wire.StateDetail{Activity: string(v.Activity), Text: v.Text, Source: wire.SourceServer,
		AsOfMs: evidence.At.UnixMilli(), SilentMs: since(spoken, evidence.At), Partial: v.Partial}
	if evidence.Looked {
		d.Source = wire.SourceSystem
	}
	if silent := time.Duration(d.SilentMs) * time.Millisecond; silent >= time.Second {
		d.Text += fmt.Sprintf("; no output for %d s", int(silent.Seconds()))
	}
	if v.PID != 0 {
		d.PID, d.Command = &v.PID, &v.Name
	}
	if v.Holder.PID != 0 {
		d.HolderPID = &v.Holder.PID
		if v.Holder.Name != "" {
			d.HolderCommand = &v.Holder.Name
		}
	}
	for _, seen := range v.Seen {
		d.Evidence = append(d.Evidence, wire.StateEvidence{PID: seen.PID, Command: seen.Name, Saw: seen.Saw})
	}
	return d
}

// since is a time in milliseconds; clocks that were set back do not count.
func since(then, now time.Time) uint64 { return uint64(max(0, now.Sub(then).Milliseconds())) }

// searchTime is how long a search may take. The whole log of a process takes less
// unless it is very long, the pattern very costly or the disk very slow.
const searchTime = 10 * time.Second

// Search looks for lines in the output of a process, as far as that is still held.
// That does not count as reading it.
func (s *Session) Search(ctx context.Context, params *wire.SearchParams) (wire.SearchResult, error) {
	query, err := search.NewQuery(params)
	if err != nil {
		return wire.SearchResult{}, err
	}
	p, err := s.find(params.ProcessID)
	if err != nil {
		return wire.SearchResult{}, err
	}
	result, err := search.Run(ctx, p.Log, query, time.Now().Add(searchTime))
	if errors.Is(err, outlog.ErrEnded) {
		return result, fmt.Errorf("%w %s", ErrUnknownProcess, p.ID)
	}
	return result, err
}
