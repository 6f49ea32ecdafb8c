package files

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// Limits of sending.
const (
	// sendBlock is the size of one block, unless the server allows only smaller ones.
	sendBlock = 1 << 20

	// sendWindow is how many blocks may wait for their answers.
	sendWindow = 4

	// abortTimeout bounds the wait until the server has removed an upload that failed.
	abortTimeout = 5 * time.Second
)

// UploadOptions change an upload. The zero value is fine.
type UploadOptions struct {
	// Mode is the permissions of a new file, regardless of the server's umask; zero: the
	// server's default. A file that is replaced keeps its permissions. Servers without
	// client.FeatureUpload ignore it.
	Mode fs.FileMode

	// ID, if not empty, names the upload in the session, in up to 64 bytes. A client that
	// has resumed the session, see client.Options.Resume, continues an upload that an
	// earlier client has begun under the same ID. If the server finds at the end that the
	// bytes are not the bytes of r, the upload begins again. When the context ends, the
	// server keeps the bytes that have arrived. Servers without client.FeatureUpload ignore
	// it.
	ID string

	// Progress, if set, is called with how many bytes have arrived. It must not wait.
	Progress func(done, total int64)
}

func (o UploadOptions) progress(done, total int64) {
	if o.Progress != nil {
		o.Progress(done, total)
	}
}

// sliceReader reads from memory.
func sliceReader(data []byte) io.ReaderAt { return bytes.NewReader(data) }

// Upload makes a file on the executor from the first size bytes of r, or replaces a file.
//
// On servers with [client.FeatureUpload] it continues after a lost connection with the bytes
// that have not arrived, the server compares the SHA-256 of all bytes, and the file takes its
// place in one step or not at all. On other servers, and with a sandbox, a file of up to 8 MiB
// is replaced with one request. A larger file is emptied and filled: until Upload returns nil
// the file is incomplete, and after a lost connection it is filled from the start.
func (f *Files) Upload(ctx context.Context, name string, r io.ReaderAt, size int64, o UploadOptions) error {
	return f.at("upload", name, func(uri wire.PathURI) error {
		switch info := f.client.Info(); {
		case size < 0:
			return fs.ErrInvalid
		case f.client.Has(client.FeatureUpload) && !f.confined():
			return newUpload(f, uri, r, size, o).run(ctx)
		case size <= maxWholeFile:
			return f.uploadWhole(ctx, uri, r, size, o)
		case !info.Capabilities.FileWriteStreaming || f.confined() && !info.Capabilities.SandboxedFileStreaming:
			return unsupported("a file of this size")
		}
		return f.fill(ctx, uri, r, size, o)
	})
}

// uploadWhole sends a file in one request.
func (f *Files) uploadWhole(ctx context.Context, uri wire.PathURI, r io.ReaderAt, size int64, o UploadOptions) error {
	data := make([]byte, size)
	if err := readExactly(r, data, 0); err != nil {
		return err
	}
	if err := f.writeWhole(ctx, uri, data); err != nil {
		return err
	}
	o.progress(size, size)
	return nil
}

// readExactly fills b. If r has fewer bytes, that is an error.
func readExactly(r io.ReaderAt, b []byte, offset int64) error {
	n, err := r.ReadAt(b, offset)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// An upload is a file that is being sent by the methods tether/upload/….
type upload struct {
	files  *Files
	params wire.UploadOpenParams
	source io.ReaderAt
	size   int64
	opts   UploadOptions

	sum       hash.Hash // of the first summed bytes
	summed    int64
	finished  bool // the commit was sent, and its outcome is not known
	named     bool // the caller has chosen its id, and the server was not yet asked how much it has
	inherited bool // an earlier client has sent a part of it
}

func newUpload(f *Files, uri wire.PathURI, r io.ReaderAt, size int64, o UploadOptions) *upload {
	u := &upload{files: f, source: r, size: size, opts: o, sum: sha256.New()}
	u.params = wire.UploadOpenParams{UploadID: f.client.NewID(), Path: uri, Size: uint64(size), Sandbox: f.sandbox}
	if o.ID != "" {
		u.params.UploadID, u.named = o.ID, true
	}
	if o.Mode != 0 {
		mode := uint32(o.Mode.Perm())
		u.params.Mode = &mode
	}
	return u
}

// run sends the file, over as many connections as that takes.
func (u *upload) run(ctx context.Context) error {
	err := u.files.client.Through(ctx, client.Idempotent, func(l *client.Link) error {
		err := u.runOn(ctx, l)
		if (u.named || u.inherited) && isStale(err) {
			u.startOver(l)
			err = u.runOn(ctx, l)
		}
		if err != nil && (u.opts.ID == "" || ctx.Err() == nil) {
			u.abort(ctx, l)
		}
		return err
	})
	if err != nil && u.finished {
		err = fmt.Errorf("%w: %w", client.ErrAmbiguous, err)
	}
	return err
}

// runOn continues the upload on one connection.
func (u *upload) runOn(ctx context.Context, l *client.Link) error {
	var at wire.UploadOpenResult
	if err := l.Call(ctx, wire.MethodUploadOpen, u.params, &at); err != nil {
		return err
	}
	u.finished = u.finished && at.Committed
	if u.named {
		u.named, u.inherited = false, at.Committed || at.Offset > 0
	}
	if at.Committed && !u.inherited { // the answer to the commit was lost
		u.opts.progress(u.size, u.size)
		return nil
	}
	if at.Committed {
		at.Offset = uint64(u.size) // a repeated commit compares the digests
	}
	if u.inherited {
		if err := u.catchUp(ctx, int64(min(at.Offset, uint64(u.size)))); err != nil {
			return err
		}
	}
	s := sender{
		link: l, source: u.source, offset: int64(at.Offset), size: u.size,
		block: int64(min(at.MaxBlock, sendBlock)),
		request: func(offset int64, data []byte) (string, any) {
			return wire.MethodUploadWrite, wire.UploadWriteParams{UploadID: u.params.UploadID, Offset: uint64(offset), Chunk: data}
		},
		read: u.add, progress: u.opts.progress,
	}
	if err := s.run(ctx); err != nil {
		return err
	}
	if u.summed < u.size { // the server claims to have bytes that were never sent
		return protocolError("upload goes on at %d though only %d bytes were sent", at.Offset, u.summed)
	}
	return u.commit(ctx, l)
}

// commit lets the server put the file in its place.
func (u *upload) commit(ctx context.Context, l *client.Link) error {
	params := wire.UploadCommitParams{UploadID: u.params.UploadID, SHA256: hex.EncodeToString(u.sum.Sum(nil))}
	call, err := l.Begin(ctx, wire.MethodUploadCommit, params)
	if err != nil {
		return err
	}
	err = call.Wait(ctx, nil)
	_, refused := errors.AsType[*client.ServerError](err)
	u.finished = !refused
	return err
}

// abort lets the server remove the bytes that have arrived, so that a failed upload leaves
// nothing behind. It waits for that unless the context has ended.
func (u *upload) abort(ctx context.Context, l *client.Link) {
	params := wire.UploadParams{UploadID: u.params.UploadID}
	if ctx.Err() != nil {
		l.Tell(wire.MethodUploadAbort, params)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, abortTimeout)
	defer cancel()
	l.CleanUp(ctx, wire.MethodUploadAbort, params)
}

// isStale reports whether the bytes that an earlier client has sent belong to another file.
func isStale(err error) bool {
	refusal, ok := errors.AsType[*client.ServerError](err)
	return ok && (refusal.Reason == wire.ErrorDigestMismatch || refusal.Reason == wire.ErrorUploadDiffers)
}

// startOver drops the bytes that an earlier client has sent. It takes a new upload id, because
// an upload that is committed cannot be aborted.
func (u *upload) startOver(l *client.Link) {
	l.Tell(wire.MethodUploadAbort, wire.UploadParams{UploadID: u.params.UploadID})
	u.params.UploadID = u.files.client.NewID()
	u.sum.Reset()
	u.summed, u.finished, u.named, u.inherited = 0, false, false, false
}

// catchUp adds the bytes that an earlier client has sent to the digest.
func (u *upload) catchUp(ctx context.Context, upto int64) error {
	buf := make([]byte, sendBlock)
	for u.summed < upto {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		data := buf[:min(sendBlock, upto-u.summed)]
		if err := readExactly(u.source, data, u.summed); err != nil {
			return err
		}
		u.add(u.summed, data)
	}
	return nil
}

// add adds bytes to the digest that are read for the first time.
func (u *upload) add(offset int64, data []byte) {
	if end := offset + int64(len(data)); offset <= u.summed && end > u.summed {
		u.sum.Write(data[u.summed-offset:])
		u.summed = end
	}
}

// A sender sends the rest of a file on one connection, several blocks at a time.
type sender struct {
	link     *client.Link
	source   io.ReaderAt
	offset   int64 // of the next byte to send
	size     int64
	block    int64
	request  func(offset int64, data []byte) (method string, params any)
	read     func(offset int64, data []byte) // is called with each block; may be nil
	progress func(done, total int64)
}

// run returns when all blocks are answered, or with the first error.
func (s *sender) run(ctx context.Context) (err error) {
	type sent struct {
		call *client.Request
		end  int64
	}
	var unanswered []sent
	defer func() { // after an error, give up the answers of the other requests
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for _, f := range unanswered {
			f.call.Wait(ended, nil)
		}
	}()
	if s.block <= 0 {
		return protocolError("the server accepts blocks of %d bytes only", s.block)
	}
	s.progress(s.offset, s.size)
	for s.offset < s.size || len(unanswered) > 0 {
		if s.offset < s.size && len(unanswered) < sendWindow {
			data := make([]byte, min(s.block, s.size-s.offset))
			if err := readExactly(s.source, data, s.offset); err != nil {
				return err
			}
			if s.read != nil {
				s.read(s.offset, data)
			}
			method, params := s.request(s.offset, data)
			call, err := s.link.Begin(ctx, method, params)
			if err != nil {
				return err
			}
			s.offset += int64(len(data))
			unanswered = append(unanswered, sent{call, s.offset})
			continue
		}
		first := unanswered[0]
		unanswered = unanswered[1:]
		if err := first.call.Wait(ctx, nil); err != nil {
			return err
		}
		s.progress(first.end, s.size)
	}
	return nil
}

// fill empties a file and writes it in blocks; each connection begins again.
func (f *Files) fill(ctx context.Context, uri wire.PathURI, r io.ReaderAt, size int64, o UploadOptions) error {
	return f.client.Through(ctx, client.Idempotent, func(l *client.Link) error { return f.fillOn(ctx, l, uri, r, size, o) })
}

func (f *Files) fillOn(ctx context.Context, l *client.Link, uri wire.PathURI, r io.ReaderAt, size int64, o UploadOptions) error {
	id := f.client.NewID()
	params := wire.OpenParams{HandleID: id, Path: uri, Mode: wire.OpenReplace, Sandbox: f.sandbox}
	if err := l.Call(ctx, wire.MethodFsOpen, params, nil); err != nil {
		return err
	}
	s := sender{
		link: l, source: r, size: size, block: sendBlock,
		request: func(offset int64, data []byte) (string, any) {
			return wire.MethodFsWriteBlock, wire.WriteBlockParams{HandleID: id, Offset: uint64(offset), Chunk: data}
		},
		progress: o.progress,
	}
	if err := s.run(ctx); err != nil {
		l.Tell(wire.MethodFsClose, wire.HandleParams{HandleID: id})
		return err
	}
	return l.CleanUp(ctx, wire.MethodFsClose, wire.HandleParams{HandleID: id})
}

// DownloadOptions change a download. The zero value is fine.
type DownloadOptions struct {
	// Progress, if set, is called with how many bytes were written. It must not wait.
	Progress func(done, total int64)
}

// Download copies a file of the executor to w, over as many connections as that takes. If
// the file's size or time changes meanwhile, the error is [ErrChanged], and the bytes that
// were written may be a mixture of several versions.
func (f *Files) Download(ctx context.Context, name string, w io.Writer, o DownloadOptions) error {
	file, err := f.Open(ctx, name)
	if err != nil {
		return err
	}
	defer file.Close()
	done, total := int64(0), file.info.Size()
	buf := make([]byte, readBlock)
	for {
		n, err := file.read(ctx, buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			done += int64(n)
			if o.Progress != nil {
				o.Progress(done, max(done, total))
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return file.readError(err)
		}
	}
	now, err := f.Stat(ctx, name)
	if err != nil {
		return err
	}
	// Files that the system generates, as in /proc, have the size 0.
	if !file.info.same(now) || done != total && total != 0 {
		return pathError("read", name, ErrChanged)
	}
	return nil
}
