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

// How files are sent.
const (
	// sendBlock is how much of a file is sent at a time, if the server takes that
	// much.
	sendBlock = 1 << 20

	// sendWindow is how many blocks wait for their answers.
	sendWindow = 4

	// abortPatience bounds the wait until the server has removed an upload that failed.
	abortPatience = 5 * time.Second
)

// UploadOptions change an upload. The zero value is fine.
type UploadOptions struct {
	// Mode are the permissions of a new file, whatever the umask of the server; zero:
	// those of any new file. A file that is replaced keeps its own. Servers without
	// client.FeatureUpload do not know it.
	Mode fs.FileMode

	// ID, if not empty, names the upload in the session, in up to 64 bytes. A client that
	// has resumed the session, see Options.Resume, goes on with what an earlier one has
	// sent under the same ID, if the server finds in the end that all bytes are those
	// of r; otherwise it begins again. What has arrived when the context ends is kept
	// for that. Servers without client.FeatureUpload do not know it.
	ID string

	// Progress, if set, is told what has arrived. It must not wait.
	Progress func(done, total int64)
}

func (o UploadOptions) progress(done, total int64) {
	if o.Progress != nil {
		o.Progress(done, total)
	}
}

// sliceReader reads what is in memory.
func sliceReader(data []byte) io.ReaderAt { return bytes.NewReader(data) }

// Upload makes a file of the executor of the first size bytes of r, or replaces one.
//
// On servers with [client.FeatureUpload] it goes on after a lost connection with what has not
// arrived, the server compares the SHA-256 of all bytes, and the file takes its place
// in one step or not at all. Other servers, and those that shall enforce a sandbox,
// replace a file of up to 8 MiB with one request. A larger one they empty and fill:
// until Upload returns nil the file is incomplete, and after a lost connection it is
// filled from the start.
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

// readExactly fills b; less is an error.
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

// An upload is a file on its way by tether/upload.
type upload struct {
	files  *Files
	params wire.UploadOpenParams
	source io.ReaderAt
	size   int64
	opts   UploadOptions

	sum       hash.Hash // of the first summed bytes
	summed    int64
	finished  bool // the commit was sent, and its outcome is not known
	named     bool // by the caller; the server was not asked yet what it has
	inherited bool // an earlier client has sent some of it
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

// run sees the upload through lost connections.
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

// runOn goes on with the upload on one connection.
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
		at.Offset = uint64(u.size) // a commit that is repeated compares the sums
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
	if u.summed < u.size { // what an earlier connection has sent was not summed up
		return protocolError("upload goes on at %d though only %d bytes were sent", at.Offset, u.summed)
	}
	return u.commit(ctx, l)
}

// commit puts the file in its place.
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

// abort lets the server remove what has arrived, and waits for that unless the caller is
// in a hurry: after an upload that failed, nothing of it is to be seen.
func (u *upload) abort(ctx context.Context, l *client.Link) {
	params := wire.UploadParams{UploadID: u.params.UploadID}
	if ctx.Err() != nil {
		l.Tell(wire.MethodUploadAbort, params)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, abortPatience)
	defer cancel()
	l.CleanUp(ctx, wire.MethodUploadAbort, params)
}

// isStale reports whether what an earlier client has sent is part of another file.
func isStale(err error) bool {
	refusal, ok := errors.AsType[*client.ServerError](err)
	return ok && (refusal.Reason == wire.ErrorDigestMismatch || refusal.Reason == wire.ErrorUploadDiffers)
}

// startOver gives up what an earlier client has sent. The file gets another name for
// its way: one that is in its place cannot be given up.
func (u *upload) startOver(l *client.Link) {
	l.Tell(wire.MethodUploadAbort, wire.UploadParams{UploadID: u.params.UploadID})
	u.params.UploadID = u.files.client.NewID()
	u.sum.Reset()
	u.summed, u.finished, u.named, u.inherited = 0, false, false, false
}

// catchUp sums up what an earlier client has sent.
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

// add sums up what is read for the first time.
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
	offset   int64 // where to go on
	size     int64
	block    int64
	request  func(offset int64, data []byte) (method string, params any)
	read     func(offset int64, data []byte) // is shown each block; may be nil
	progress func(done, total int64)
}

// run returns when all blocks are answered, or with the first error.
func (s *sender) run(ctx context.Context) (err error) {
	type sent struct {
		call *client.Request
		end  int64
	}
	var flying []sent
	defer func() { // after an error nobody waits for the others
		gone, cancel := context.WithCancel(ctx)
		cancel()
		for _, f := range flying {
			f.call.Wait(gone, nil)
		}
	}()
	if s.block <= 0 {
		return protocolError("the server takes blocks of %d bytes", s.block)
	}
	s.progress(s.offset, s.size)
	for s.offset < s.size || len(flying) > 0 {
		if s.offset < s.size && len(flying) < sendWindow {
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
			flying = append(flying, sent{call, s.offset})
			continue
		}
		first := flying[0]
		flying = flying[1:]
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
	// Progress, if set, is told what was written. It must not wait.
	Progress func(done, total int64)
}

// Download copies a file of the executor to w, through any number of connections. If
// the file's size or time changes meanwhile the error is [ErrChanged], and what was
// written is not to be trusted.
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
			return file.problem(err)
		}
	}
	now, err := f.Stat(ctx, name)
	if err != nil {
		return err
	}
	// Files that the system makes up, as in /proc, say that they are empty.
	if !file.info.same(now) || done != total && total != 0 {
		return pathError("read", name, ErrChanged)
	}
	return nil
}
