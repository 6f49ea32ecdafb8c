package server

import (
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// methods is the whole protocol after the handshake.
var methods = map[string]method{
	wire.MethodEnvironmentInfo:   call("environment info", (*conn).environmentInfo).onControlLane(),
	wire.MethodEnvironmentStatus: call("environment status", (*conn).environmentStatus).onControlLane(),

	wire.MethodProcessStart:     starts((*conn).startProcess),
	wire.MethodProcessRead:      async("exec", (*conn).readOutput, func(p *wire.ReadParams) string { return p.ProcessID }),
	wire.MethodProcessWrite:     async("exec", (*conn).writeInput, func(p *wire.WriteParams) string { return p.ProcessID }),
	wire.MethodProcessSignal:    ordered("exec", (*conn).interrupt, func(p *wire.SignalParams) string { return p.ProcessID }).onControlLane(),
	wire.MethodProcessTerminate: ordered("exec", (*conn).terminate, func(p *wire.ProcessParams) string { return p.ProcessID }).onControlLane(),

	wire.MethodFsReadFile:        readsFile(),
	wire.MethodFsWriteFile:       changes((*fileRequest).writeFile, func(p *wire.WriteFileParams) (wire.PathURI, *wire.Sandbox) { return p.Path, p.Sandbox }),
	wire.MethodFsCreateDirectory: changes((*fileRequest).createDirectory, func(p *wire.CreateDirectoryParams) (wire.PathURI, *wire.Sandbox) { return p.Path, p.Sandbox }),
	wire.MethodFsGetMetadata:     looks((*fileRequest).metadata, func(p *wire.MetadataParams) (wire.PathURI, *wire.Sandbox) { return p.Path, p.Sandbox }),
	wire.MethodFsCanonicalize:    looks((*fileRequest).canonicalize, func(p *wire.CanonicalizeParams) (wire.PathURI, *wire.Sandbox) { return p.Path, p.Sandbox }),
	wire.MethodFsReadDirectory:   lists((*fileRequest).readDirectory, func(p *wire.ReadDirectoryParams) (wire.PathURI, *wire.Sandbox) { return p.Path, p.Sandbox }),
	wire.MethodFsWalk:            lists((*fileRequest).walk, func(p *wire.WalkParams) (wire.PathURI, *wire.Sandbox) { return p.Path, p.Sandbox }),
	wire.MethodFsRemove:          changes((*fileRequest).remove, func(p *wire.RemoveParams) (wire.PathURI, *wire.Sandbox) { return p.Path, p.Sandbox }),
	wire.MethodFsCopy: fileMethod((*fileRequest).copy, func(p *wire.CopyParams) (wire.PathURI, *wire.Sandbox) { return p.DestinationPath, p.Sandbox }, true,
		func(p *wire.CopyParams) []wire.PathURI { return []wire.PathURI{p.SourcePath} }),

	wire.MethodFsWatchMissing: answers("filesystem", (*conn).watchMissing, nil, func(*wire.WatchMissingParams) string { return "\x00watch" }),

	wire.MethodFsOpen: answers("filesystem", replying((*conn).openFile), (*conn).opening, func(p *wire.OpenParams) string { return handleKey(p.HandleID) }),
	wire.MethodFsReadBlock: answers("filesystem", (*conn).readBlock,
		func(c *conn, p *wire.ReadBlockParams) []schedule.Touch { return c.handles.touches(p.HandleID, false) }, func(p *wire.ReadBlockParams) string { return handleKey(p.HandleID) }),
	wire.MethodFsWriteBlock: answers("filesystem", replying((*conn).writeBlock),
		func(c *conn, p *wire.WriteBlockParams) []schedule.Touch { return c.handles.touches(p.HandleID, true) }, func(p *wire.WriteBlockParams) string { return handleKey(p.HandleID) }),
	wire.MethodFsClose: answers("filesystem", replying((*conn).closeFile), nil, func(p *wire.HandleParams) string { return handleKey(p.HandleID) }),

	wire.MethodHTTPRequest: answers("http", (*conn).httpRequest, nil, nil),

	wire.MethodEnvironmentConfigRead: answers("environment config", (*conn).readConfig, nil, nil),
	wire.MethodDiscoverRoots:         answers("capability discovery", (*conn).discoverRoots, nil, nil),
	wire.MethodDiscoverCapabilities:  answers("capability discovery", (*conn).discoverCapabilities, nil, nil),

	wire.MethodFsSetAttributes: answers("filesystem", replying((*conn).setAttributes),
		func(_ *conn, p *wire.SetAttributesParams) []schedule.Touch { return touch(nil, p.Path, true) }, nil),

	wire.MethodUploadOpen:   answers("filesystem", replying((*conn).openUpload), nil, func(p *wire.UploadOpenParams) string { return uploadKey(p.UploadID) }),
	wire.MethodUploadWrite:  answers("filesystem", replying((*conn).writeUpload), nil, func(p *wire.UploadWriteParams) string { return uploadKey(p.UploadID) }),
	wire.MethodUploadStatus: answers("filesystem", replying((*conn).uploadStatus), nil, func(p *wire.UploadParams) string { return uploadKey(p.UploadID) }),
	wire.MethodUploadCommit: answers("filesystem", replying((*conn).commitUpload), nil, func(p *wire.UploadCommitParams) string { return uploadKey(p.UploadID) }),
	wire.MethodUploadAbort:  answers("filesystem", replying((*conn).abortUpload), nil, func(p *wire.UploadParams) string { return uploadKey(p.UploadID) }),

	wire.MethodProcessResize:     ordered("exec", (*conn).resize, func(p *wire.ResizeParams) string { return p.ProcessID }),
	wire.MethodProcessCloseStdin: ordered("exec", (*conn).closeStdin, func(p *wire.CloseStdinParams) string { return p.ProcessID }),
	wire.MethodProcessSignalAny:  ordered("exec", (*conn).signal, func(p *wire.SignalAnyParams) string { return p.ProcessID }).onControlLane(),
	wire.MethodProcessList:       async("exec", (*conn).listProcesses, nil),
	wire.MethodProcessState:      inspects((*conn).processState, func(p *wire.StateParams) string { return p.ProcessID }),
	wire.MethodProcessSearch:     inspects((*conn).searchOutput, func(p *wire.SearchParams) string { return p.ProcessID }),
	wire.MethodProcessObserve:    async("exec", (*conn).observe, func(p *wire.ObserveParams) string { return p.ProcessID }),
	wire.MethodProcessUnobserve:  call("exec", (*conn).unobserve),
	wire.MethodSessionList:       call("exec", (*conn).listSessions),
	wire.MethodSessionEnd:        answers("exec", (*conn).endAnySession, nil, nil),

	wire.MethodProcessWriteAny:     async("exec", (*conn).writeAnyInput, func(p *wire.WriteAnyParams) string { return p.ProcessID }),
	wire.MethodProcessTerminateAny: ordered("exec", (*conn).terminateAny, func(p *wire.TerminateAnyParams) string { return p.ProcessID }).onControlLane(),
}

// A method is one row of the protocol: it decodes the parameters of a request
// and says how it is to be run.
type method struct {
	family  string // how the handshake's errors call it
	control bool
	prepare func(params []byte) (prepared, error)
}

// prepared is a request whose parameters are known to be well-formed.
type prepared struct {
	process   *string // keeps its order among the requests of this process
	exclusive bool    // and makes the later ones wait
	slow      bool    // waits while it runs
	touches   []schedule.Touch
	arrive    func(*conn) []schedule.Touch                              // says in order of arrival what it touches; may be nil
	passing   bool                                                      // waits for what it touches, but does not make others wait
	try       func(c *conn, a *session.Attachment, r *rpc.Request) bool // answers if that takes no waiting; may be nil
	run       func(c *conn, a *session.Attachment, r *rpc.Request, done func())
}

func (m method) onControlLane() method {
	m.control = true
	return m
}

// async adapts a function that answers when it likes to, on behalf of a process.
func async[P any](family string, f func(*conn, *session.Attachment, *rpc.Request, *P, func()), process func(*P) string) method {
	return method{family: family, prepare: func(params []byte) (prepared, error) {
		p := new(P)
		if err := wire.Decode(params, p); err != nil {
			return prepared{}, wire.Errorf(wire.CodeInvalidParams, "%v", err)
		}
		ready := prepared{run: func(c *conn, a *session.Attachment, r *rpc.Request, done func()) { f(c, a, r, p, done) }}
		if process != nil {
			id := process(p)
			ready.process = &id
		}
		return ready, nil
	}}
}

// ordered adapts a function that answers at once, on behalf of a process.
func ordered[P, R any](family string, f func(*conn, *session.Attachment, *P) (R, error), process func(*P) string) method {
	return async(family, func(c *conn, a *session.Attachment, r *rpc.Request, p *P, done func()) {
		defer done()
		result, err := f(c, a, p)
		if err != nil {
			c.fail(r, err)
			return
		}
		r.Reply(result)
	}, process)
}

// call adapts a function that answers at once and has nothing to wait for.
func call[P, R any](family string, f func(*conn, *session.Attachment, *P) (R, error)) method {
	return ordered(family, f, nil)
}

// answers adapts a function that takes its time and gives its own answer, unless it
// fails. touches are the files that it depends on, as of its arrival; requests with the
// same line run one after the other. Both may be nil.
func answers[P any](family string, f func(*conn, *session.Attachment, *rpc.Request, *P) error, touches func(*conn, *P) []schedule.Touch, line func(*P) string) method {
	return method{family: family, prepare: func(params []byte) (prepared, error) {
		p := new(P)
		if err := wire.Decode(params, p); err != nil {
			return prepared{}, wire.Errorf(wire.CodeInvalidParams, "%v", err)
		}
		ready := prepared{slow: true, run: func(c *conn, a *session.Attachment, r *rpc.Request, done func()) {
			defer done()
			if err := f(c, a, r, p); err != nil {
				c.fail(r, err)
			}
		}}
		if touches != nil {
			ready.arrive = func(c *conn) []schedule.Touch { return touches(c, p) }
		}
		if line != nil {
			key := line(p)
			ready.process, ready.exclusive = &key, true
		}
		return ready, nil
	}}
}

// inspects adapts a function that takes its time to look at a process: it waits for the
// start of that, and nobody waits for it.
func inspects[P, R any](f func(*conn, *session.Attachment, *P) (R, error), process func(*P) string) method {
	m := answers("exec", replying(f), nil, process)
	prepare := m.prepare
	m.prepare = func(params []byte) (prepared, error) {
		p, err := prepare(params)
		p.exclusive = false
		return p, err
	}
	return m
}

// replying makes a function that gives its own answer of one that returns it.
func replying[P, R any](f func(*conn, *session.Attachment, *P) (R, error)) func(*conn, *session.Attachment, *rpc.Request, *P) error {
	return func(c *conn, a *session.Attachment, r *rpc.Request, p *P) error {
		result, err := f(c, a, p)
		if err == nil {
			r.Reply(result)
		}
		return err
	}
}

// starts adapts process/start: it waits, later requests of the same process wait for
// it, and it depends on its directory.
func starts(f func(*conn, *session.Attachment, *rpc.Request, *wire.StartParams, func())) method {
	return method{family: "exec", prepare: func(params []byte) (prepared, error) {
		p := new(wire.StartParams)
		if err := wire.Decode(params, p); err != nil {
			return prepared{}, wire.Errorf(wire.CodeInvalidParams, "%v", err)
		}
		ready := prepared{
			process: &p.ProcessID, exclusive: true, slow: true, passing: p.ShellSnapshot != nil,
			run: func(c *conn, a *session.Attachment, r *rpc.Request, done func()) { f(c, a, r, p, done) },
		}
		if cwd, err := p.Cwd.Native(); err == nil {
			ready.touches = []schedule.Touch{{Path: cwd}}
		}
		return ready, nil
	}}
}
