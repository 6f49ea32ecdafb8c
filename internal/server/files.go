package server

import (
	"context"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// A fileRequest is a request about a path. Its context ends with the connection if
// it only looks, with the session if it changes something.
type fileRequest struct {
	ctx   context.Context
	conn  *conn
	files files.Files
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
func touch(touches []schedule.Touch, uri wire.PathURI, change bool) []schedule.Touch {
	if path, err := uri.Native(); err == nil {
		return append(touches, schedule.Touch{Path: path, Change: change})
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
	if p.TetherMode == nil || !*p.TetherMode || !files.HasModes {
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
	return wire.Empty{}, files.Direct{}.SetAttributes(path, p.Mode, p.ModifiedAtMs)
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
	return wire.Empty{}, f.files.Remove(f.ctx, path, files.RemoveHow{
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
