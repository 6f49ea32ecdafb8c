package client

import (
	"context"

	"github.com/tetherexec/tether/wire"
)

// Features of servers that report what processes do and search their output, for
// [Client.Has].
const (
	FeatureState  = "state"
	FeatureSearch = "search"
)

// State asks what the command is doing at this moment: whether it waits for input, is
// stopped, works, or is blocked by another process. The answer is an observation of the
// server's system, and the state may have changed since.
func (p *Process) State(ctx context.Context) (wire.StateResult, error) {
	return p.client.processState(ctx, wire.StateParams{ProcessID: p.id})
}

// State asks what the process is doing, see [Process.State].
func (r *Remote) State(ctx context.Context) (wire.StateResult, error) {
	return r.client.processState(ctx, wire.StateParams{ProcessID: r.process, SessionID: &r.sessionID})
}

func (c *Client) processState(ctx context.Context, params wire.StateParams) (r wire.StateResult, err error) {
	if !c.Has(FeatureState) {
		return r, unsupported("looking at a process")
	}
	err = c.Call(ctx, Idempotent, wire.MethodProcessState, params, &r)
	return r, err
}

// A Search selects lines of the output. Lines are counted from 1 in the order in which they
// began, all streams together.
type Search struct {
	Pattern    string // RE2; empty: every line
	IgnoreCase bool
	Stream     string // only this stream, such as wire.StreamStdout; empty: all
	FromLine   uint64 // the first line to be searched; 0: the first that the server has
	ToLine     uint64 // the last line to be searched; 0: no limit
	MaxMatches int    // 0: wire.DefaultMatches
	Before     int    // lines of the same stream to be shown before a match
	After      int    // and after it
}

// params leaves out the fields that are zero.
func (s Search) params() (p wire.SearchParams) {
	if s.Pattern != "" {
		p.Pattern = &s.Pattern
	}
	if s.IgnoreCase {
		p.IgnoreCase = &s.IgnoreCase
	}
	if s.Stream != "" {
		p.Stream = &s.Stream
	}
	count := func(n uint64) *uint64 {
		if n == 0 {
			return nil
		}
		return &n
	}
	p.FromLine, p.ToLine = count(s.FromLine), count(s.ToLine)
	p.MaxMatches, p.Before, p.After = count(uint64(max(0, s.MaxMatches))), count(uint64(max(0, s.Before))), count(uint64(max(0, s.After)))
	return p
}

// Search looks for lines in the output of the command, on the server, as far as the server
// still has it. Readers of the output are not affected.
func (p *Process) Search(ctx context.Context, s Search) (wire.SearchResult, error) {
	params := s.params()
	params.ProcessID = p.id
	return p.client.search(ctx, params)
}

// Search looks for lines in the output of the process, see [Process.Search].
func (r *Remote) Search(ctx context.Context, s Search) (wire.SearchResult, error) {
	params := s.params()
	params.ProcessID, params.SessionID = r.process, &r.sessionID
	return r.client.search(ctx, params)
}

func (c *Client) search(ctx context.Context, params wire.SearchParams) (r wire.SearchResult, err error) {
	if !c.Has(FeatureSearch) {
		return r, unsupported("searching output")
	}
	err = c.Call(ctx, Idempotent, wire.MethodProcessSearch, params, &r)
	return r, err
}
