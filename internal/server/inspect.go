package server

import (
	"time"

	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// Limits of what lists look at: each look costs some files of /proc per process, and a
// list of thousands must not take seconds.
const (
	listedLooks    = 64
	listedLookTime = 250 * time.Millisecond
)

// searches has a place for each search that may be under way in this program: they
// take a processor each, and there are others who need one.
var searches = make(chan struct{}, 2)

func (c *conn) processState(a *session.Attachment, p *wire.StateParams) (wire.StateResult, error) {
	s, err := c.sessionOf(a, p.SessionID)
	if err != nil {
		return wire.StateResult{}, err
	}
	return s.State(p.ProcessID)
}

// searchOutput ends with the connection: nobody is left to read the answer.
func (c *conn) searchOutput(a *session.Attachment, p *wire.SearchParams) (wire.SearchResult, error) {
	s, err := c.sessionOf(a, p.SessionID)
	if err != nil {
		return wire.SearchResult{}, err
	}
	ctx := c.rpc.Context()
	for _, places := range []chan struct{}{c.searching, searches} {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-ctx.Done():
			return wire.SearchResult{}, ctx.Err()
		}
	}
	return s.Search(ctx, p)
}

// lookAt adds to a list what its processes are doing, the newest first, as long as
// that is not too much. Lists have no evidence: it is asked for one process at a time.
func lookAt(list []session.Listed) {
	deadline := time.Now().Add(listedLookTime)
	looks := 0
	for i := len(list) - 1; i >= 0 && looks < listedLooks && time.Now().Before(deadline); i-- {
		if list[i].Info.State == wire.StateClosed {
			continue
		}
		detail := list[i].Look()
		detail.Evidence = nil
		list[i].Info.StateDetail = &detail
		looks++
	}
}
