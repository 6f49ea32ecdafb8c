package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// Limits of reading.
const (
	// readBlock is the size of one read request; servers allow up to 1 MiB.
	readBlock = 256 << 10

	// maxAhead is how many blocks are fetched ahead at most for a sequential reader. The
	// number begins with one and doubles.
	maxAhead = 16
)

// A File is an open file of the executor, to read. Sequential reading fetches blocks ahead.
//
// A handle on the server ends with its connection. After a lost connection the file is
// opened again. Reading continues if its size and time are the same; otherwise the
// error is [ErrChanged]. Several goroutines may call ReadAt at once, and beside Read, Seek
// and Close.
type File struct {
	files *Files
	name  string
	uri   wire.PathURI
	info  FileInfo
	ctx   context.Context // ends with the file or the client
	close context.CancelFunc
	tasks sync.WaitGroup // fetches ahead and openings

	reading sync.Mutex // held by Read and Seek
	pos     int64
	ahead   []*block // contiguous; the first one contains pos
	window  int

	mu     sync.Mutex
	handle *handle // on the newest connection that was used
	known  bool    // it was opened before, so that it has to be the same file
}

var (
	_ io.ReadSeekCloser = (*File)(nil)
	_ io.ReaderAt       = (*File)(nil)
	_ fs.File           = (*File)(nil)
)

// A handle is a file that a connection has open, or is opening.
type handle struct {
	link  *client.Link
	id    string
	ready chan struct{} // closed when it is open; then err is set
	err   error
}

// A block is a part of a file that was asked for.
type block struct {
	offset int64
	cancel context.CancelFunc
	done   chan struct{} // closed when the rest is set
	data   []byte
	eof    bool // the file ends with it
	err    error
}

// Open opens a file to read it piece by piece. The context bounds the opening.
func (f *Files) Open(ctx context.Context, name string) (*File, error) {
	var file *File
	err := f.at("open", name, func(uri wire.PathURI) error {
		info, err := f.stat(ctx, name, uri)
		if err != nil {
			return err
		}
		file = &File{files: f, name: name, uri: uri, info: info, window: 1}
		file.ctx, file.close = context.WithCancel(f.client.Lifetime())
		err = f.client.Through(ctx, client.Idempotent, func(l *client.Link) error {
			_, err := file.on(ctx, l)
			return err
		})
		if err != nil {
			file.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

// on returns the file's handle on a connection. The first call for a connection opens it.
func (f *File) on(ctx context.Context, l *client.Link) (string, error) {
	f.mu.Lock()
	if err := f.ctx.Err(); err != nil {
		f.mu.Unlock()
		return "", err
	}
	h := f.handle
	if h == nil || h.link != l {
		h = &handle{link: l, id: f.files.client.NewID(), ready: make(chan struct{})}
		f.handle = h
		f.tasks.Go(func() {
			if h.err = f.openOn(h); h.err != nil {
				f.drop(h)
			}
			close(h.ready)
		})
	}
	f.mu.Unlock()
	select {
	case <-h.ready:
		return h.id, h.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// openOn opens the file on a connection. After the first time it must be the same file. That
// is checked after the opening, so that another file in its place is noticed.
func (f *File) openOn(h *handle) error {
	params := wire.OpenParams{HandleID: h.id, Path: f.uri, Mode: wire.OpenRead, Sandbox: f.files.sandbox}
	call, err := h.link.Begin(f.ctx, wire.MethodFsOpen, params)
	if err != nil {
		return err
	}
	err = call.Wait(f.ctx, nil)
	if _, refused := errors.AsType[*client.ServerError](err); refused {
		return err
	}
	if err == nil {
		err = f.check(h.link)
	}
	if err != nil {
		h.link.Tell(wire.MethodFsClose, wire.HandleParams{HandleID: h.id}) // it may be open
	}
	return err
}

// check returns ErrChanged if the file is not the one that was opened first.
func (f *File) check(l *client.Link) error {
	f.mu.Lock()
	known := f.known
	f.known = true
	f.mu.Unlock()
	if !known {
		return nil
	}
	now := FileInfo{}
	err := l.Call(f.ctx, wire.MethodFsGetMetadata, wire.MetadataParams{Path: f.uri, Sandbox: f.files.sandbox}, &now.meta)
	if err == nil && !f.info.same(now) {
		err = ErrChanged
	}
	return err
}

// drop removes a handle that could not be opened: the next reader tries again.
func (f *File) drop(h *handle) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.handle == h {
		f.handle = nil
	}
}

// fetch reads n bytes at an offset, fewer only at the end of the file.
func (f *File) fetch(ctx context.Context, offset int64, n int) (data []byte, eof bool, err error) {
	for len(data) < n && !eof {
		var r wire.ReadBlockResult
		err := f.files.client.Through(ctx, client.Idempotent, func(l *client.Link) error {
			id, err := f.on(ctx, l)
			if err != nil {
				return err
			}
			params := wire.ReadBlockParams{HandleID: id, Offset: uint64(offset) + uint64(len(data)), Len: uint64(n - len(data))}
			return l.Call(ctx, wire.MethodFsReadBlock, params, &r)
		})
		if err != nil {
			return data, false, err
		}
		if len(r.Chunk) > n-len(data) || len(r.Chunk) == 0 && !r.EOF {
			return data, false, protocolError("%d bytes of a file instead of %d", len(r.Chunk), n-len(data))
		}
		if data == nil {
			data = r.Chunk
		} else {
			data = append(data, r.Chunk...)
		}
		eof = r.EOF
	}
	return data, eof, nil
}

// readError adds the path to an error of a reader. io.EOF stays unchanged.
func (f *File) readError(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case f.ctx.Err() != nil && f.files.client.Lifetime().Err() == nil:
		err = fs.ErrClosed
	case f.ctx.Err() != nil && errors.Is(err, context.Canceled):
		err = context.Cause(f.ctx)
	}
	return pathError("read", f.name, err)
}

// Stat describes the file as it was when it was opened.
func (f *File) Stat() (fs.FileInfo, error) {
	if f.ctx.Err() != nil && f.files.client.Lifetime().Err() == nil {
		return nil, pathError("stat", f.name, fs.ErrClosed)
	}
	return f.info, nil
}

// Read implements io.Reader.
func (f *File) Read(b []byte) (int, error) {
	n, err := f.read(f.ctx, b)
	return n, f.readError(err)
}

func (f *File) read(ctx context.Context, b []byte) (int, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	if len(b) == 0 {
		return 0, nil
	}
	for {
		f.fetchAhead()
		first := f.ahead[0]
		select {
		case <-first.done:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if skip := f.pos - first.offset; skip < int64(len(first.data)) {
			n := copy(b, first.data[skip:])
			f.pos += int64(n)
			return n, nil
		}
		switch {
		case first.err != nil:
			f.dropAhead()
			return 0, first.err
		case first.eof:
			f.dropAhead() // the file may grow
			return 0, io.EOF
		}
		f.ahead = f.ahead[1:]
		f.window = min(2*f.window, maxAhead)
	}
}

// fetchAhead requests the block at the position and, up to the size that the file had, the blocks
// after it.
func (f *File) fetchAhead() {
	for len(f.ahead) < f.window {
		next := f.pos
		if n := len(f.ahead); n > 0 {
			if next = f.ahead[n-1].offset + readBlock; next >= f.info.Size() {
				return
			}
		}
		f.ahead = append(f.ahead, f.requestBlock(next))
	}
}

// requestBlock requests a block.
func (f *File) requestBlock(offset int64) *block {
	ctx, cancel := context.WithCancel(f.ctx)
	b := &block{offset: offset, cancel: cancel, done: make(chan struct{})}
	get := func() {
		defer cancel()
		defer close(b.done)
		b.data, b.eof, b.err = f.fetch(ctx, offset, readBlock)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.err = f.ctx.Err(); b.err != nil { // Close may already have waited for the tasks
		cancel()
		close(b.done)
		return b
	}
	f.tasks.Go(get)
	return b
}

// dropAhead drops the blocks that were fetched ahead.
func (f *File) dropAhead() {
	for _, b := range f.ahead {
		b.cancel()
	}
	f.ahead, f.window = nil, 1
}

// Seek implements io.Seeker. The end is where it was when the file was opened.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	f.reading.Lock()
	defer f.reading.Unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += f.info.Size()
	default:
		offset = -1
	}
	if offset < 0 {
		return f.pos, &fs.PathError{Op: "seek", Path: f.name, Err: fs.ErrInvalid}
	}
	for len(f.ahead) > 1 && offset >= f.ahead[1].offset {
		f.ahead[0].cancel()
		f.ahead = f.ahead[1:]
	}
	if len(f.ahead) > 0 && (offset < f.ahead[0].offset || offset > f.ahead[0].offset+readBlock) {
		f.dropAhead()
	}
	f.pos = offset
	return offset, nil
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(b []byte, offset int64) (total int, err error) {
	if offset < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.name, Err: fs.ErrInvalid}
	}
	if err := f.ctx.Err(); err != nil {
		return 0, f.readError(err)
	}
	for total < len(b) {
		data, eof, err := f.fetch(f.ctx, offset+int64(total), min(readBlock, len(b)-total))
		total += copy(b[total:], data)
		if err == nil && eof && total < len(b) {
			err = io.EOF
		}
		if err != nil {
			return total, f.readError(err)
		}
	}
	return total, nil
}

// Close implements io.Closer. A Read that waits returns fs.ErrClosed.
func (f *File) Close() error {
	if f.ctx.Err() != nil && f.files.client.Lifetime().Err() == nil {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.mu.Lock()
	f.close()
	f.mu.Unlock()
	f.tasks.Wait()
	if h := f.handle; h != nil {
		h.link.Tell(wire.MethodFsClose, wire.HandleParams{HandleID: h.id})
	}
	return nil
}
