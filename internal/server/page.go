package server

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/tetherexec/tether/internal/outlog"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// readPage answers tether/process/read: a page of the events of a process that the log still has. Like an observer, the reader holds nothing back.
func (r *request) readPage(p *wire.ReadAnyParams) error {
	if p.AfterSeq != nil && p.BeforeSeq != nil {
		return wire.Errorf(wire.CodeInvalidParams, "afterSeq and beforeSeq cannot be used together")
	}
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return err
	}
	process, err := s.Find(p.ProcessID)
	if err != nil {
		return err
	}
	page := page{process: process, cost: wire.DefaultPage, end: math.MaxUint64}
	if p.MaxBytes != nil {
		page.cost = int64(min(*p.MaxBytes, wire.MaxPage))
	}
	if err := r.Permit(r.conn.rpc.Context(), encodedSize(max(int(page.cost), outlog.MaxEntry))); err != nil {
		return err
	}
	cursor := process.Log.Cursor(0)
	switch {
	case p.BeforeSeq != nil:
		page.end = *p.BeforeSeq
		err = cursor.SeekBack(page.end, page.cost)
	case p.AfterSeq != nil:
		cursor.Seek(min(*p.AfterSeq, math.MaxUint64-1))
	}
	page.msg = append(r.ID.AppendJSON([]byte(`{"id":`)), `,"result":{"events":[`...)
	if err == nil {
		err = page.fill(cursor)
	}
	if errors.Is(err, outlog.ErrEnded) {
		return fmt.Errorf("%w %s", session.ErrUnknownProcess, process.ID)
	}
	if err != nil {
		return err
	}
	stats := process.Log.Stats()
	r.ReplyEncoded(fmt.Appendf(page.msg, `],"firstSeq":%d,"nextSeq":%d}}`, stats.First, stats.Next))
	return nil
}

// A page is a run of events of a process, in the answer that it is written into.
type page struct {
	process *session.Process
	end     uint64 // its events have lower numbers
	cost    int64  // what further events may cost
	msg     []byte
	events  int
}

// fill adds events from the cursor on. If the cursor falls behind the oldest event, the page begins again from there: it has no gap. A page
// without end is rather cut short, because its reader asks for the rest anyway.
func (p *page) fill(c *outlog.Cursor) error {
	begin, cost := len(p.msg), p.cost
	for c.Seq()+1 < p.end {
		full := false
		err := c.Next(func(e outlog.Entry) { full = !p.add(e) })
		switch {
		case full, errors.Is(err, outlog.ErrNone), errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, outlog.ErrEvicted):
			if p.end == math.MaxUint64 && p.events > 0 {
				return nil
			}
			p.msg, p.cost, p.events = p.msg[:begin], cost, 0
			c.Seek(p.process.Log.Stats().First - 1)
		case err != nil:
			return err
		}
	}
	return nil
}

// add adds an event, unless the page is full.
func (p *page) add(e outlog.Entry) bool {
	cost := int64(len(e.Data)) + wire.PagedEvent
	if cost > p.cost && p.events > 0 {
		return false
	}
	if p.events > 0 {
		p.msg = append(p.msg, ',')
	}
	p.msg = appendEvent(append(p.msg, '{'), p.process, e)
	if kind := pagedKinds[e.Kind]; kind != "" {
		p.msg = append(p.msg, `,"kind":`...)
		p.msg = strconv.AppendQuote(p.msg, kind)
	}
	p.msg = append(p.msg, '}')
	p.cost, p.events = p.cost-cost, p.events+1
	return true
}

// pagedKinds are the kinds of events in pages.
var pagedKinds = [...]string{outlog.Output: "", outlog.Exited: wire.EventExited, outlog.Closed: wire.EventClosed}
