package server

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/schedule"
	"github.com/tetherexec/tether/wire"
)

// handles are the files that a connection has open.
type handles struct {
	mu     sync.Mutex
	open   map[string]*handle
	closed bool

	// pendingOpens has, by id, the requests to open a file that have not failed and whose file is not closed
	// yet.
	pendingOpens map[string][]*wire.OpenParams
}

// A handle is an open file.
type handle struct {
	opened *wire.OpenParams
	file   *os.File // nil while it is being opened; guarded by handles
}

// expect notes that a request to open a file has arrived.
func (h *handles) expect(p *wire.OpenParams) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pendingOpens == nil {
		h.pendingOpens = map[string][]*wire.OpenParams{}
	}
	h.pendingOpens[p.HandleID] = append(h.pendingOpens[p.HandleID], p)
}

// paths returns the files that a handle may refer to when it is used.
func (h *handles) paths(id string, change bool) (list []schedule.PathUse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pendingOpens[id] {
		list = append(list, use(p.Path, change)...)
	}
	return list
}

// cancel forgets a request to open a file.
func (h *handles) cancel(p *wire.OpenParams) {
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := slices.DeleteFunc(h.pendingOpens[p.HandleID], func(q *wire.OpenParams) bool { return q == p })
	if len(rest) == 0 {
		delete(h.pendingOpens, p.HandleID)
		return
	}
	h.pendingOpens[p.HandleID] = rest
}

func checkHandleID(id string) error {
	if len(id) > files.MaxHandleID {
		return wire.Errorf(wire.CodeInvalidRequest, "file handle ID must not exceed %d bytes", files.MaxHandleID)
	}
	return nil
}

// reserve takes an id for a file that is about to be opened. It comes before the
// opening, because that may empty the file.
func (h *handles) reserve(p *wire.OpenParams) error {
	id := p.HandleID
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return context.Canceled
	case h.open[id] != nil:
		return wire.Errorf(wire.CodeInvalidRequest, "file handle `%s` already exists", id)
	case len(h.open) >= files.MaxHandles:
		return wire.Errorf(wire.CodeInvalidRequest, "at most %d file handles may be open per connection", files.MaxHandles)
	case h.open == nil:
		h.open = map[string]*handle{}
	}
	h.open[id] = &handle{opened: p}
	return nil
}

// set gives an id its file. A nil file means that opening has failed.
func (h *handles) set(id string, file *os.File) {
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
		h.cancel(found.opened)
	}
}

// closeAll closes the files when the connection ends.
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

// openFile opens a file for later requests. expect was called when the request arrived.
func (r *request) openFile(p *wire.OpenParams) (_ wire.HandleResult, err error) {
	handles := &r.conn.handles
	defer func() {
		if err != nil {
			handles.cancel(p)
		}
	}()
	if err := checkHandleID(p.HandleID); err != nil {
		return wire.HandleResult{}, err
	}
	replace := p.Mode == wire.OpenReplace
	target := r.reads
	if replace {
		target = r.changes
	}
	f, err := target(p.Path, p.Sandbox)
	if err != nil {
		return wire.HandleResult{}, err
	}
	if err := handles.reserve(p); err != nil {
		return wire.HandleResult{}, err
	}
	var file *os.File
	if replace {
		file, err = f.Replace(f.ctx, f.path)
	} else {
		file, err = f.Open(f.ctx, f.path, true)
	}
	if err != nil {
		file = nil
	}
	handles.set(p.HandleID, file)
	return wire.HandleResult{HandleID: p.HandleID}, err
}

// readBlock answers fs/readBlock. A failure closes the file.
func (r *request) readBlock(p *wire.ReadBlockParams) error {
	if err := checkHandleID(p.HandleID); err != nil {
		return err
	}
	if p.Len < 1 || p.Len > files.MaxBlock {
		return wire.Errorf(wire.CodeInvalidRequest, "file read block length must be between 1 and %d", files.MaxBlock)
	}
	h, err := r.conn.handles.find(p.HandleID)
	if err != nil {
		return err
	}
	if err := r.Permit(r.conn.rpc.Context(), encodedSize(int(p.Len))); err != nil {
		return err
	}
	block := make([]byte, p.Len)
	n := 0
	if p.Offset <= math.MaxInt64 { // no file is longer
		n, err = h.file.ReadAt(block, int64(p.Offset))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.conn.handles.close(p.HandleID)
		return &files.Error{Err: err}
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

func (r *request) writeBlock(p *wire.WriteBlockParams) (wire.Empty, error) {
	if err := checkHandleID(p.HandleID); err != nil {
		return wire.Empty{}, err
	}
	size := uint64(len(p.Chunk))
	if size < 1 || size > files.MaxBlock {
		return wire.Empty{}, wire.Errorf(wire.CodeInvalidRequest, "file write block length must be between 1 and %d", files.MaxBlock)
	}
	if p.Offset > math.MaxInt64-size {
		return wire.Empty{}, wire.Errorf(wire.CodeInvalidRequest, "file write range exceeds the signed 64-bit file offset limit")
	}
	h, err := r.conn.handles.find(p.HandleID)
	if err != nil {
		return wire.Empty{}, err
	}
	if _, err := h.file.WriteAt(p.Chunk, int64(p.Offset)); err != nil {
		return wire.Empty{}, &files.Error{Err: err}
	}
	return wire.Empty{}, nil
}

func (r *request) closeFile(p *wire.HandleParams) (wire.Empty, error) {
	if err := checkHandleID(p.HandleID); err != nil {
		return wire.Empty{}, err
	}
	r.conn.handles.close(p.HandleID)
	return wire.Empty{}, nil
}
