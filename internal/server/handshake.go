package server

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tetherexec/tether/internal/audit"
	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/observe"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// handshake is the state of a client's handshake, and the options that the client
// asked for.
type handshake struct {
	attachment  atomic.Pointer[session.Attachment] // set by initialize
	initialized atomic.Bool
	goodbye     atomic.Bool // the client wants a message when the server ends
}

// ready returns the client's attachment, once the handshake is done.
func (h *handshake) ready(family string) (*session.Attachment, error) {
	a := h.attachment.Load()
	switch {
	case a == nil:
		return nil, wire.Errorf(wire.CodeInvalidRequest, "client must call initialize before using %s methods", family)
	case !h.initialized.Load():
		return nil, wire.Errorf(wire.CodeInvalidRequest, "client must send initialized before using %s methods", family)
	}
	return a, nil
}

// initialize opens or resumes a session. The reader waits for it, because all later
// requests depend on it.
func (c *conn) initialize(r *rpc.Request) {
	var p wire.InitializeParams
	if err := wire.Decode(r.Params, &p); err != nil {
		r.Fail(wire.Errorf(wire.CodeInvalidParams, "%v", err))
		return
	}
	if c.handshake.attachment.Load() != nil {
		r.Fail(wire.Errorf(wire.CodeInvalidRequest, "initialize may only be sent once per connection"))
		return
	}
	a, err := c.attach(&p)
	if err != nil {
		r.Fail(wireError(err))
		return
	}
	c.polling.ctx, c.polling.end = context.WithCancelCause(a.Context())
	c.controller.Name = c.nameOf(a.Session)
	c.handshake.attachment.Store(a)
	if t := p.Tether; t != nil && t.Goodbye != nil {
		c.handshake.goodbye.Store(*t.Goodbye)
	}
	s := a.Session
	opened, logged := audit.SessionOpened, "session opened"
	if p.ResumeSessionID != nil {
		opened, logged = audit.SessionResumed, "session resumed"
	}
	c.record(s, audit.Event{Event: opened, Trace: traceID(r.Trace)})
	c.logSession(logged, s, r.Trace)
	if told := c.origin.Attached; told != nil {
		told(s.ID, s.TTL(), p.ResumeSessionID != nil)
	}
	r.Reply(wire.InitializeResult{
		SessionID: s.ID, EnvironmentInfo: c.server.info,
		Tether: wire.TetherInfo{
			Version: c.server.config.Version, PublicID: s.Public,
			TTLMs: uint64(s.TTL().Milliseconds()), Features: c.features(), Host: c.origin.Host, ReadOnly: c.readOnly(),
			Admin: c.origin.Client.Admin,
		},
	})
	c.server.procs.Prepare() // the client is likely to start a command
}

func (c *conn) attach(p *wire.InitializeParams) (*session.Attachment, error) {
	rights := c.rights()
	if p.ResumeSessionID != nil {
		return c.server.sessions.Resume(c.rpc.Context(), *p.ResumeSessionID, rights, c)
	}
	w := session.Options{Client: p.ClientName, Rights: rights}
	if t := p.Tether; t != nil {
		if t.TTLMs != nil {
			w.TTL = time.Duration(min(*t.TTLMs, uint64(c.server.limitsNow().terms.MaxTTL.Milliseconds()))) * time.Millisecond
		}
		w.Acks = t.Acks != nil && *t.Acks
		if t.Label != nil {
			w.Label = *t.Label
		}
		if err := checkLabel(w.Label); err != nil {
			return nil, err
		}
	}
	return c.server.sessions.Open(w, c)
}

// features are the extensions that a tether client may use.
func (c *conn) features() []string {
	list := []string{"ack", "closeStdin", "concurrent", "control", "describe", "endSession", "goodbye", "hostPorts", "keepNewest", "label", "limits", "list", "observe", "once", "oneStream",
		"readAny", "readOnly", "remoteControl", "resize", "retryStart", "search", "sessionTtl", "signal", "state", "survivors", "termSize", "usage"}
	if c.server.state.Durable() {
		list = append(list, "failure")
	}
	if files.HasModes {
		list = append(list, "fileAttributes")
	}
	if upload.Supported {
		list = append(list, "upload")
	}
	if c.server.config.Kept != nil {
		list = append(list, featureKeeper)
	}
	if c.server.config.Reload != nil {
		list = append(list, featureReload)
	}
	if c.server.ports.Allowed() {
		list = append(list, "ports")
	}
	if c.server.ports.Listens() {
		list = append(list, "portListen")
	}
	if observe.HasListeners {
		list = append(list, "portList")
	}
	if c.console() != nil {
		list = append(list, featureConsole)
	}
	slices.Sort(list)
	return list
}
