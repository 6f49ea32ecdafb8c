package server

import (
	"errors"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/upload"
	"github.com/tetherexec/tether/internal/session"
	"github.com/tetherexec/tether/wire"
)

// errSandboxedUpload: the directory would have to be opened inside.
var errSandboxedUpload = &files.Error{Err: errors.New("uploads cannot be confined; use fs/open and fs/writeBlock")}

func (c *conn) openUpload(a *session.Attachment, p *wire.UploadOpenParams) (wire.UploadOpenResult, error) {
	if p.Sandbox != nil && !p.Sandbox.Disabled() {
		return wire.UploadOpenResult{}, errSandboxedUpload
	}
	return a.Session.Uploads.Open(a.Session.Context(), upload.Direct, *p)
}

func (c *conn) writeUpload(a *session.Attachment, p *wire.UploadWriteParams) (wire.UploadWriteResult, error) {
	return a.Session.Uploads.Write(a.Session.Context(), *p)
}

func (c *conn) uploadStatus(a *session.Attachment, p *wire.UploadParams) (wire.UploadStatusResult, error) {
	return a.Session.Uploads.Status(a.Session.Context(), *p)
}

func (c *conn) commitUpload(a *session.Attachment, p *wire.UploadCommitParams) (wire.Empty, error) {
	return wire.Empty{}, a.Session.Uploads.Commit(a.Session.Context(), *p)
}

func (c *conn) abortUpload(a *session.Attachment, p *wire.UploadParams) (wire.Empty, error) {
	return wire.Empty{}, a.Session.Uploads.Abort(a.Session.Context(), *p)
}

// uploadKey keeps the order of requests about one upload.
func uploadKey(id string) string { return "\x00upload " + id }
