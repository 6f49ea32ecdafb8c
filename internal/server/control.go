package server

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// takeControl shows to the observers of a process that this connection types.
func (r *request) takeControl(p *wire.ControlParams) (wire.Empty, error) {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return wire.Empty{}, err
	}
	if err := r.conn.controller.Take(s, p.ProcessID); err != nil {
		return wire.Empty{}, err
	}
	r.record(s, audit.Event{Event: audit.ProcessTaken, Process: p.ProcessID})
	return wire.Empty{}, nil
}

func (r *request) giveControl(p *wire.ControlParams) (wire.Empty, error) {
	s, err := r.sessionOf(p.SessionID)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, r.conn.controller.Give(s, p.ProcessID)
}

// nameOf is the name of a client for people: the label of its session, its principal, or the name of its program.
func (c *conn) nameOf(s *session.Session) string {
	name := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, cmp.Or(s.Label, c.origin.Client.Principal, s.Client))
	if len(name) > wire.MaxLabel {
		name = strings.ToValidUTF8(name[:wire.MaxLabel], "")
	}
	return name
}

// encodeController adds the notification of who types to the batch.
func (o *observation) encodeController() {
	b := fmt.Appendf(o.batch.Open(2*notificationOverhead+wire.MaxLabel), `{"method":"%s","params":`, wire.NoteObservedControl)
	note := wire.ObservedControl{ObserveID: o.id}
	if o.shown != nil {
		note.Holder, note.Mine = &o.shown.Name, o.shown == &o.conn.controller
	}
	o.batch.Seal(append(wire.AppendValue(b, note), '}'))
}
