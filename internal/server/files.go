package server

import (
	"context"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/wire"
)

// longAnswer is the room that a request takes before it knows the size of its answer: lists of files, configuration,
// skills. A request never waits for other connections to get this much. It gives back what its answer does not need.
const longAnswer = 2 << 20

// A fileTarget is the path that a request is about, and the file operations that its sandbox
// allows.
type fileTarget struct {
	files.Files
	ctx  context.Context
	path string
}

// reads returns the target of a request that changes nothing. The request ends with the connection.
func (r *request) reads(uri wire.PathURI, sandbox *wire.Sandbox) (fileTarget, error) {
	return r.target(r.attachment.Context(), uri, sandbox)
}

// changes returns the target of a request that changes something. The request ends with the session.
func (r *request) changes(uri wire.PathURI, sandbox *wire.Sandbox) (fileTarget, error) {
	return r.target(r.attachment.Session.Context(), uri, sandbox)
}

func (r *request) target(ctx context.Context, uri wire.PathURI, sandbox *wire.Sandbox) (fileTarget, error) {
	in, err := r.attachment.Session.Files(ctx, sandbox)
	if err != nil {
		return fileTarget{}, err
	}
	path, err := nativePath(uri)
	return fileTarget{in, ctx, path}, err
}

func nativePath(uri wire.PathURI) (string, error) {
	path, err := uri.Native()
	if err != nil {
		return "", wire.Errorf(wire.CodeInvalidRequest, "%v", err)
	}
	return path, nil
}

func orTrue(b *bool) bool { return b == nil || *b }

func (r *request) metadata(p *wire.MetadataParams) (wire.MetadataResult, error) {
	f, err := r.reads(p.Path, p.Sandbox)
	if err != nil {
		return wire.MetadataResult{}, err
	}
	result, err := f.Metadata(f.ctx, f.path, wire.FollowsLinks(p.FollowSymlinks))
	if p.TetherMode == nil || !*p.TetherMode || !files.HasModes {
		result.TetherMode = nil // only clients that ask for the mode know the member
	}
	return result, err
}

func (r *request) canonicalize(p *wire.CanonicalizeParams) (wire.CanonicalizeResult, error) {
	f, err := r.reads(p.Path, p.Sandbox)
	if err != nil {
		return wire.CanonicalizeResult{}, err
	}
	real, err := f.Canonicalize(f.ctx, f.path)
	return wire.CanonicalizeResult{Path: wire.PathToURI(real)}, err
}

func (r *request) readDirectory(p *wire.ReadDirectoryParams) (wire.ReadDirectoryResult, error) {
	if err := r.Permit(r.attachment.Context(), longAnswer); err != nil {
		return wire.ReadDirectoryResult{}, err
	}
	f, err := r.reads(p.Path, p.Sandbox)
	if err != nil {
		return wire.ReadDirectoryResult{}, err
	}
	entries, err := f.ReadDirectory(f.ctx, f.path)
	return wire.ReadDirectoryResult{Entries: entries}, err
}

func (r *request) walk(p *wire.WalkParams) (wire.WalkResult, error) {
	if err := r.Permit(r.attachment.Context(), longAnswer); err != nil {
		return wire.WalkResult{}, err
	}
	f, err := r.reads(p.Path, p.Sandbox)
	if err != nil {
		return wire.WalkResult{}, err
	}
	return f.Walk(f.ctx, f.path, p.Options)
}

func (r *request) writeFile(p *wire.WriteFileParams) (wire.Empty, error) {
	f, err := r.changes(p.Path, p.Sandbox)
	if err != nil {
		return wire.Empty{}, err
	}
	data, err := wire.DecodeBase64(p.DataBase64)
	if err != nil {
		return wire.Empty{}, wire.Errorf(wire.CodeInvalidRequest, "fs/writeFile requires valid base64 dataBase64: %v", err)
	}
	return wire.Empty{}, f.WriteFile(f.ctx, f.path, data, wire.FollowsLinks(p.FollowSymlinks))
}

func (r *request) createDirectory(p *wire.CreateDirectoryParams) (wire.Empty, error) {
	f, err := r.changes(p.Path, p.Sandbox)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, f.CreateDirectory(f.ctx, f.path, orTrue(p.Recursive), wire.FollowsLinks(p.FollowSymlinks))
}

func (r *request) remove(p *wire.RemoveParams) (wire.Empty, error) {
	f, err := r.changes(p.Path, p.Sandbox)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, f.Remove(f.ctx, f.path, files.RemoveHow{
		Recursive: orTrue(p.Recursive), Force: orTrue(p.Force), Follow: wire.FollowsLinks(p.FollowSymlinks),
	})
}

func (r *request) copy(p *wire.CopyParams) (wire.Empty, error) {
	source, err := r.changes(p.SourcePath, p.Sandbox)
	if err != nil {
		return wire.Empty{}, err
	}
	destination, err := nativePath(p.DestinationPath)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, source.Copy(source.ctx, source.path, destination, p.Recursive)
}

// errSandboxedAttributes refuses a sandbox: the attributes are not set inside one.
var errSandboxedAttributes = wire.Errorf(wire.CodeInvalidRequest, "%s cannot be confined", wire.MethodFsSetAttributes)

func (r *request) setAttributes(p *wire.SetAttributesParams) (wire.Empty, error) {
	if p.Sandbox != nil && !p.Sandbox.Disabled() {
		return wire.Empty{}, errSandboxedAttributes
	}
	path, err := nativePath(p.Path)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, files.Direct{}.SetAttributes(path, p.Mode, p.ModifiedAtMs)
}
