package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/tetherexec/tether/internal/observe"
	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/search"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/internal/slots"
	"github.com/tetherexec/tether/wire"
)

// Limits for the states in a list: each state costs some files of /proc per process,
// and a list of thousands must not take seconds.
const (
	listedLooks    = 64
	listedLookTime = 250 * time.Millisecond
)

// searchTime is how long a search may take. The whole log of a process takes less
// unless it is very long, the pattern very costly or the disk very slow.
const searchTime = 10 * time.Second

// searches is a semaphore for the searches of this program: each uses a whole
// processor, and other requests need one too.
var searches = slots.New(2)

func (r *request) processState(p *wire.StateParams) (wire.StateResult, error) {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return wire.StateResult{}, err
	}
	process, err := s.Find(p.ProcessID)
	if err != nil {
		return wire.StateResult{}, err
	}
	l := process.Listed()
	return wire.StateResult{State: l.Info.State, ExitCode: l.Info.ExitCode, StateDetail: describe(l)}, nil
}

// describeProcess tells the facts about a process.
func (r *request) describeProcess(p *wire.DescribeParams) (d wire.DescribeResult, err error) {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return d, err
	}
	process, err := s.Find(p.ProcessID)
	if err != nil {
		return d, err
	}
	d = process.Describe()
	d.Limits = inForce(process.Limits())
	return d, nil
}

// searchOutput finds lines in the output of a process, as far as the log still holds it.
// That does not count as reading the output. A search ends with the connection, because
// no client is left to read the answer.
func (r *request) searchOutput(p *wire.SearchParams) (wire.SearchResult, error) {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return wire.SearchResult{}, err
	}
	ctx := r.conn.rpc.Context()
	for _, s := range []slots.Slots{r.conn.searching, searches} {
		if err := s.Take(ctx); err != nil {
			return wire.SearchResult{}, err
		}
		defer s.Free()
	}
	query, err := search.NewQuery(p)
	if err != nil {
		return wire.SearchResult{}, err
	}
	process, err := s.Find(p.ProcessID)
	if err != nil {
		return wire.SearchResult{}, err
	}
	result, err := search.Run(ctx, process.Log, query, time.Now().Add(searchTime))
	if errors.Is(err, outlog.ErrEnded) {
		return result, fmt.Errorf("%w %s", session.ErrUnknownProcess, process.ID)
	}
	return result, err
}

// addStates adds their states to the processes of a list, the newest first, within the
// limits for lists. Lists have no evidence: a client asks for that about one process
// at a time.
func addStates(list []session.Listed) {
	deadline := time.Now().Add(listedLookTime)
	looks := 0
	for i := len(list) - 1; i >= 0 && looks < listedLooks && time.Now().Before(deadline); i-- {
		if list[i].Info.State == wire.StateClosed {
			continue
		}
		detail := describe(list[i])
		detail.Evidence = nil
		list[i].Info.StateDetail = &detail
		looks++
	}
}

// describe says what a process is doing at this moment, from what the system shows.
func describe(l session.Listed) wire.StateDetail {
	state, stats := l.Log.State(), l.Log.Stats()
	spoken := l.Child.StartedAt()
	if !stats.LastEntryTime.IsZero() {
		spoken = stats.LastEntryTime
	}
	if state.Closed {
		now := time.Now()
		return wire.StateDetail{Activity: wire.ActivityEnded, Text: fmt.Sprintf("it has ended with exit code %d", state.ExitCode),
			Source: wire.SourceServer, AsOfMs: now.UnixMilli(), SilentMs: since(spoken, now)}
	}
	evidence := observe.LookAt(l.Child)
	evidence.Blocked = l.Log.Stats().Blocked
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

// since is the time from then to now in milliseconds; 0 if the clock was set back.
func since(then, now time.Time) uint64 { return uint64(max(0, now.Sub(then).Milliseconds())) }
