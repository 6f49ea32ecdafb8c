package server

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/tetherexec/tether/internal/fsrpc"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// A fileRequest is a request about a path. Its context ends with the connection if
// it only looks, with the session if it changes something.
type fileRequest struct {
	ctx   context.Context
	conn  *conn
	files fsrpc.Files
}

// path is the native form of one of its paths.
func (f *fileRequest) path(uri wire.PathURI) (string, error) { return nativePath(uri) }

func nativePath(uri wire.PathURI) (string, error) {
	path, err := uri.Native()
	if err != nil {
		return "", wire.Errorf(wire.CodeInvalidRequest, "%v", err)
	}
	return path, nil
}

// looks adapts a file method that changes nothing.
func looks[P, R any](f func(*fileRequest, *P) (R, error), at func(*P) (wire.PathURI, *wire.Sandbox)) method {
	return fileMethod(f, at, false, nil)
}

// lists adapts a file method that changes nothing and may have much to tell.
func lists[P, R any](f func(*fileRequest, *P) (R, error), at func(*P) (wire.PathURI, *wire.Sandbox)) method {
	m := looks(f, at)
	prepare := m.prepare
	m.prepare = func(params []byte) (prepared, error) {
		p, err := prepare(params)
		run := p.run
		p.run = func(c *conn, a *session.Attachment, r *rpc.Request, done func()) {
			if err := r.Permit(a.Context(), longAnswer); err != nil {
				defer done()
				c.fail(r, err)
				return
			}
			run(c, a, r, done)
		}
		return p, err
	}
	return m
}

// longAnswer is the room that a request takes before it knows how much it has to tell:
// lists of files, configuration, skills. It never has to wait for other connections for
// so much, and gives back what it does not need when it is answered.
const longAnswer = 2 << 20

// changes adapts a file method that changes what is at a path; also another path
// that it looks at.
func changes[P, R any](f func(*fileRequest, *P) (R, error), at func(*P) (wire.PathURI, *wire.Sandbox)) method {
	return fileMethod(f, at, true, nil)
}

func fileMethod[P, R any](f func(*fileRequest, *P) (R, error), at func(*P) (wire.PathURI, *wire.Sandbox), change bool, also func(*P) []wire.PathURI) method {
	return method{family: "filesystem", prepare: func(params []byte) (prepared, error) {
		p := new(P)
		if err := wire.Decode(params, p); err != nil {
			return prepared{}, wire.Errorf(wire.CodeInvalidParams, "%v", err)
		}
		uri, sandbox := at(p)
		touches := touch(nil, uri, change)
		if also != nil {
			for _, uri := range also(p) {
				touches = touch(touches, uri, false)
			}
		}
		return prepared{slow: true, touches: touches, run: func(c *conn, a *session.Attachment, r *rpc.Request, done func()) {
			defer done()
			request, err := c.fileRequest(a, sandbox, change)
			var result R
			if err == nil {
				result, err = f(request, p)
			}
			if err != nil {
				c.fail(r, err)
				return
			}
			r.Reply(result)
		}}, nil
	}}
}

// touch adds a path. One that means nothing here is refused later.
func touch(touches []rpc.Touch, uri wire.PathURI, change bool) []rpc.Touch {
	if path, err := uri.Native(); err == nil {
		return append(touches, rpc.Touch{Path: path, Change: change})
	}
	return touches
}

// fileRequest finds out who serves a request.
func (c *conn) fileRequest(a *session.Attachment, sandbox *wire.Sandbox, change bool) (*fileRequest, error) {
	ctx := a.Context()
	if change {
		ctx = a.Session.Context()
	}
	files, err := a.Session.Files(ctx, sandbox)
	if err != nil {
		return nil, err
	}
	return &fileRequest{ctx, c, files}, nil
}

func (f *fileRequest) metadata(p *wire.MetadataParams) (wire.MetadataResult, error) {
	path, err := f.path(p.Path)
	if err != nil {
		return wire.MetadataResult{}, err
	}
	result, err := f.files.Metadata(f.ctx, path, wire.FollowsLinks(p.FollowSymlinks))
	if p.TetherMode == nil || !*p.TetherMode || !fsrpc.HasModes {
		result.TetherMode = nil // other clients get what they know
	}
	return result, err
}

// errSandboxedAttributes: a helper inside the sandbox would have to set them.
var errSandboxedAttributes = wire.Errorf(wire.CodeInvalidRequest, "%s cannot be confined", wire.MethodFsSetAttributes)

func (c *conn) setAttributes(_ *session.Attachment, p *wire.SetAttributesParams) (wire.Empty, error) {
	if p.Sandbox != nil && !p.Sandbox.Disabled() {
		return wire.Empty{}, errSandboxedAttributes
	}
	path, err := nativePath(p.Path)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, fsrpc.Direct{}.SetAttributes(path, p.Mode, p.ModifiedAtMs)
}

func (f *fileRequest) writeFile(p *wire.WriteFileParams) (wire.Empty, error) {
	path, err := f.path(p.Path)
	if err != nil {
		return wire.Empty{}, err
	}
	data, err := wire.DecodeBase64(p.DataBase64)
	if err != nil {
		return wire.Empty{}, wire.Errorf(wire.CodeInvalidRequest, "fs/writeFile requires valid base64 dataBase64: %v", err)
	}
	return wire.Empty{}, f.files.WriteFile(f.ctx, path, data, wire.FollowsLinks(p.FollowSymlinks))
}

func (f *fileRequest) createDirectory(p *wire.CreateDirectoryParams) (wire.Empty, error) {
	path, err := f.path(p.Path)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, f.files.CreateDirectory(f.ctx, path, orTrue(p.Recursive), wire.FollowsLinks(p.FollowSymlinks))
}

func orTrue(b *bool) bool { return b == nil || *b }

func (f *fileRequest) canonicalize(p *wire.CanonicalizeParams) (wire.CanonicalizeResult, error) {
	path, err := f.path(p.Path)
	if err != nil {
		return wire.CanonicalizeResult{}, err
	}
	real, err := f.files.Canonicalize(f.ctx, path)
	return wire.CanonicalizeResult{Path: wire.PathToURI(real)}, err
}

func (f *fileRequest) readDirectory(p *wire.ReadDirectoryParams) (wire.ReadDirectoryResult, error) {
	path, err := f.path(p.Path)
	if err != nil {
		return wire.ReadDirectoryResult{}, err
	}
	entries, err := f.files.ReadDirectory(f.ctx, path)
	return wire.ReadDirectoryResult{Entries: entries}, err
}

func (f *fileRequest) walk(p *wire.WalkParams) (wire.WalkResult, error) {
	path, err := f.path(p.Path)
	if err != nil {
		return wire.WalkResult{}, err
	}
	return f.files.Walk(f.ctx, path, p.Options)
}

func (f *fileRequest) remove(p *wire.RemoveParams) (wire.Empty, error) {
	path, err := f.path(p.Path)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, f.files.Remove(f.ctx, path, fsrpc.RemoveHow{
		Recursive: orTrue(p.Recursive), Force: orTrue(p.Force), Follow: wire.FollowsLinks(p.FollowSymlinks),
	})
}

func (f *fileRequest) copy(p *wire.CopyParams) (wire.Empty, error) {
	source, err := f.path(p.SourcePath)
	if err != nil {
		return wire.Empty{}, err
	}
	destination, err := f.path(p.DestinationPath)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, f.files.Copy(f.ctx, source, destination, p.Recursive)
}

// handles are the files that a connection has open.
type handles struct {
	mu     sync.Mutex
	open   map[string]*handle
	asked  map[string][]*wire.OpenParams // by id, the requests to open one that have not failed and whose file was not closed
	closed bool
}

// A handle is an open file.
type handle struct {
	asked *wire.OpenParams
	file  *os.File // nil while it is being opened; guarded by handles
}

// ask notes that a file is to be opened.
func (h *handles) ask(p *wire.OpenParams) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked == nil {
		h.asked = map[string][]*wire.OpenParams{}
	}
	h.asked[p.HandleID] = append(h.asked[p.HandleID], p)
}

// touches are the files that a handle may stand for when it is used.
func (h *handles) touches(id string, change bool) (list []rpc.Touch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.asked[id] {
		list = touch(list, p.Path, change)
	}
	return list
}

// undo forgets a request to open a file.
func (h *handles) undo(p *wire.OpenParams) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := slices.DeleteFunc(h.asked[p.HandleID], func(q *wire.OpenParams) bool { return q == p })
	if len(rest) == 0 {
		delete(h.asked, p.HandleID)
		return
	}
	h.asked[p.HandleID] = rest
}

func checkHandleID(id string) error {
	if len(id) > fsrpc.MaxHandleID {
		return wire.Errorf(wire.CodeInvalidRequest, "file handle ID must not exceed %d bytes", fsrpc.MaxHandleID)
	}
	return nil
}

// reserve takes an id for a file that is about to be opened: a file must not be
// emptied for nothing.
func (h *handles) reserve(p *wire.OpenParams) error {
	id := p.HandleID
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return context.Canceled
	case h.open[id] != nil:
		return wire.Errorf(wire.CodeInvalidRequest, "file handle `%s` already exists", id)
	case len(h.open) >= fsrpc.MaxHandles:
		return wire.Errorf(wire.CodeInvalidRequest, "at most %d file handles may be open per connection", fsrpc.MaxHandles)
	case h.open == nil:
		h.open = map[string]*handle{}
	}
	h.open[id] = &handle{asked: p}
	return nil
}

// fill gives an id its file; nil: there is none after all.
func (h *handles) fill(id string, file *os.File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case file == nil:
		delete(h.open, id)
	case h.closed:
		file.Close()
	default:
		h.open[id].file = file
	}
}

func (h *handles) find(id string) (*handle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if found := h.open[id]; found != nil && found.file != nil {
		return found, nil
	}
	return nil, wire.Errorf(wire.CodeNotFound, "unknown file handle `%s`", id)
}

func (h *handles) close(id string) {
	h.mu.Lock()
	found := h.open[id]
	delete(h.open, id)
	h.mu.Unlock()
	if found != nil && found.file != nil {
		found.file.Close()
		h.undo(found.asked)
	}
}

// closeAll ends them with their connection.
func (h *handles) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, found := range h.open {
		if found.file != nil {
			found.file.Close()
		}
	}
	h.open = nil
}

// opening notes that a file is to be opened, and says which.
func (c *conn) opening(p *wire.OpenParams) []rpc.Touch {
	c.handles.ask(p)
	return touch(nil, p.Path, p.Mode == wire.OpenReplace)
}

func (c *conn) openFile(a *session.Attachment, p *wire.OpenParams) (_ wire.HandleResult, err error) {
	defer func() {
		if err != nil {
			c.handles.undo(p)
		}
	}()
	if err := checkHandleID(p.HandleID); err != nil {
		return wire.HandleResult{}, err
	}
	f, err := c.fileRequest(a, p.Sandbox, p.Mode == wire.OpenReplace)
	if err != nil {
		return wire.HandleResult{}, err
	}
	path, err := f.path(p.Path)
	if err != nil {
		return wire.HandleResult{}, err
	}
	if err := c.handles.reserve(p); err != nil {
		return wire.HandleResult{}, err
	}
	var file *os.File
	if p.Mode == wire.OpenReplace {
		file, err = f.files.Replace(f.ctx, path)
	} else {
		file, err = f.files.Open(f.ctx, path, true)
	}
	if err != nil {
		file = nil
	}
	c.handles.fill(p.HandleID, file)
	return wire.HandleResult{HandleID: p.HandleID}, err
}

// readBlock answers fs/readBlock. A failure closes the file.
func (c *conn) readBlock(_ *session.Attachment, r *rpc.Request, p *wire.ReadBlockParams) error {
	if err := checkHandleID(p.HandleID); err != nil {
		return err
	}
	if p.Len < 1 || p.Len > fsrpc.MaxBlock {
		return wire.Errorf(wire.CodeInvalidRequest, "file read block length must be between 1 and %d", fsrpc.MaxBlock)
	}
	h, err := c.handles.find(p.HandleID)
	if err != nil {
		return err
	}
	if err := r.Permit(c.rpc.Context(), encodedSize(int(p.Len))); err != nil {
		return err
	}
	block := make([]byte, p.Len)
	n := 0
	if p.Offset <= math.MaxInt64 { // beyond there is nothing
		n, err = h.file.ReadAt(block, int64(p.Offset))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.handles.close(p.HandleID)
		return &fsrpc.Error{Err: err}
	}
	msg := append(make([]byte, 0, encodedSize(n)), `{"id":`...)
	msg = r.ID.AppendJSON(msg)
	msg = append(msg, `,"result":{"chunk":"`...)
	msg = appendBase64(msg, block[:n])
	msg = append(msg, `","eof":`...)
	if n < int(p.Len) {
		msg = append(msg, "true}}"...)
	} else {
		msg = append(msg, "false}}"...)
	}
	r.ReplyEncoded(msg)
	return nil
}

func (c *conn) writeBlock(_ *session.Attachment, p *wire.WriteBlockParams) (wire.Empty, error) {
	if err := checkHandleID(p.HandleID); err != nil {
		return wire.Empty{}, err
	}
	size := uint64(len(p.Chunk))
	if size < 1 || size > fsrpc.MaxBlock {
		return wire.Empty{}, wire.Errorf(wire.CodeInvalidRequest, "file write block length must be between 1 and %d", fsrpc.MaxBlock)
	}
	if p.Offset > math.MaxInt64-size {
		return wire.Empty{}, wire.Errorf(wire.CodeInvalidRequest, "file write range exceeds the signed 64-bit file offset limit")
	}
	h, err := c.handles.find(p.HandleID)
	if err != nil {
		return wire.Empty{}, err
	}
	if _, err := h.file.WriteAt(p.Chunk, int64(p.Offset)); err != nil {
		return wire.Empty{}, &fsrpc.Error{Err: err}
	}
	return wire.Empty{}, nil
}

func (c *conn) closeFile(_ *session.Attachment, p *wire.HandleParams) (wire.Empty, error) {
	if err := checkHandleID(p.HandleID); err != nil {
		return wire.Empty{}, err
	}
	c.handles.close(p.HandleID)
	return wire.Empty{}, nil
}

// handleKey keeps the order of requests about one open file.
func handleKey(id string) string { return "\x00file " + id }
