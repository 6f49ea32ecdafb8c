package server

import (
	"errors"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/wire"
)

// errSandboxedUpload refuses a sandbox: the target directory is not opened inside
// one.
var errSandboxedUpload = &files.Error{Err: errors.New("uploads cannot be confined; use fs/open and fs/writeBlock")}

func (r *request) openUpload(p *wire.UploadOpenParams) (wire.UploadOpenResult, error) {
	if p.Sandbox != nil && !p.Sandbox.Disabled() {
		return wire.UploadOpenResult{}, errSandboxedUpload
	}
	p.Sandbox = nil // it has no effect
	return r.attachment.Session.Uploads.Open(r.attachment.Session.Context(), upload.Direct, *p)
}

func (r *request) writeUpload(p *wire.UploadWriteParams) (wire.UploadWriteResult, error) {
	return r.attachment.Session.Uploads.Write(r.attachment.Session.Context(), *p)
}

func (r *request) uploadStatus(p *wire.UploadParams) (wire.UploadStatusResult, error) {
	return r.attachment.Session.Uploads.Status(r.attachment.Session.Context(), *p)
}

func (r *request) commitUpload(p *wire.UploadCommitParams) (wire.Empty, error) {
	target, err := r.attachment.Session.Uploads.Commit(r.attachment.Session.Context(), *p)
	if path, notHere := target.Native(); err == nil && notHere == nil { // otherwise an earlier request has committed it
		r.changed = []string{path}
	}
	return wire.Empty{}, err
}

func (r *request) abortUpload(p *wire.UploadParams) (wire.Empty, error) {
	return wire.Empty{}, r.attachment.Session.Uploads.Abort(r.attachment.Session.Context(), *p)
}
