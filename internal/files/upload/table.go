package upload

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/tetherexec/tether/wire"
)

// Limits of uploads.
const (
	MaxUploads   = 16            // open in a session: each holds two descriptors and disk space
	MaxCommitted = 64            // remembered in a session, to recognise a repeated commit
	MaxID        = 64            // bytes of an upload's id
	MaxBlock     = 4 << 20       // bytes of one block
	MaxSize      = math.MaxInt64 // bytes of a file: the largest offset
	IdleLimit    = time.Hour     // an upload that is unused for so long is dropped
)

// A Place finds the target of an upload: the directory, as an O_PATH descriptor, and
// the target's name in it. The name is not a link, and links before it are not
// followed again. The caller closes the directory. [Direct] is the Place for
// requests without a sandbox.
type Place func(ctx context.Context, path string) (dir *os.File, name string, err error)

// Config configures a session's uploads.
type Config struct {
	Journal *Journal      // nil: files of a killed server stay
	Idle    time.Duration // 0: IdleLimit
	Record  func() Record // where a new upload is recorded; nil: uploads end with this program
}

// A Table has the uploads of one session. Requests about one upload run one at a
// time, in any order; requests about other uploads do not wait for them. Errors
// are *[Error].
type Table struct {
	journal *Journal
	idle    time.Duration

	newRecord func() Record // may be nil

	sync   func(*os.File) error // syncs a file to the disk
	ctx    context.Context      // ends with Close
	cancel context.CancelCauseFunc
	timers sync.WaitGroup // armed or running

	mu        sync.Mutex // guards the fields below
	uploads   map[string]*upload
	open      int      // uploads that are not committed
	committed []string // ids, oldest first
	closed    bool
}

// New makes an empty table.
func New(config Config) *Table {
	if config.Idle <= 0 {
		config.Idle = IdleLimit
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Table{
		journal: config.Journal, idle: config.Idle, newRecord: config.Record, sync: (*os.File).Sync,
		ctx: ctx, cancel: cancel, uploads: map[string]*upload{},
	}
}

// Open starts an upload, or returns how far it has come.
func (t *Table) Open(ctx context.Context, place Place, p wire.UploadOpenParams) (wire.UploadOpenResult, error) {
	path, err := checkOpen(p)
	if err != nil {
		return wire.UploadOpenResult{}, err
	}
	for {
		u, made, err := t.findOrMake(p)
		if err != nil {
			return wire.UploadOpenResult{}, err
		}
		if made {
			if err := t.begin(ctx, u, place, path); err != nil {
				return wire.UploadOpenResult{}, err
			}
		} else if err := t.take(ctx, u); err != nil {
			return wire.UploadOpenResult{}, err
		}
		gone, result := u.state == gone, u.opened()
		differs := !reflect.DeepEqual(u.params, p)
		t.release(u)
		switch {
		case gone: // it ended while this request waited
			continue
		case differs:
			return wire.UploadOpenResult{}, about(p.UploadID, ErrDiffers)
		}
		return result, nil
	}
}

func checkOpen(p wire.UploadOpenParams) (path string, err error) {
	if n := len(p.UploadID); n == 0 || n > MaxID {
		return "", refuse(ErrInvalid, "uploadId has %d bytes, not 1 to %d", n, MaxID)
	}
	if p.Size > MaxSize {
		return "", refuse(ErrInvalid, "size %d is above %d", p.Size, uint64(MaxSize))
	}
	if p.Mode != nil && *p.Mode > 0o777 {
		return "", refuse(ErrInvalid, "mode %#o has more than permissions", *p.Mode)
	}
	path, err = p.Path.Native()
	if err != nil {
		return "", &Error{err, wire.CodeInvalidRequest}
	}
	return path, nil
}

// findOrMake returns the upload with this id. If it is new, the caller holds
// it.
func (t *Table) findOrMake(p wire.UploadOpenParams) (u *upload, made bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false, ended()
	}
	if u := t.uploads[p.UploadID]; u != nil {
		return u, false, nil
	}
	if t.open >= MaxUploads {
		return nil, false, refuse(ErrLimit, "%d uploads are open", t.open)
	}
	u = newUpload(p)
	u.timer = time.AfterFunc(math.MaxInt64, func() { t.expire(u) })
	u.timer.Stop()
	t.uploads[p.UploadID] = u
	t.open++
	return u, true, nil
}

// begin makes the temporary file of a new upload. If that fails, the upload is
// removed.
func (t *Table) begin(ctx context.Context, u *upload, place Place, path string) error {
	ctx, cancel := t.bound(ctx)
	defer cancel()
	dir, name, err := place(ctx, path)
	if err == nil {
		u.temp, err = newTemporary(dir, name, t.journal)
	}
	if err == nil {
		if err = t.keep(u); err != nil {
			err = errors.Join(err, u.temp.remove())
		}
	}
	if err != nil {
		t.forget(u)
		t.release(u)
		return placing(err)
	}
	u.state = receiving
	return nil
}

// Write writes a block. A failed block counts as not received, and may be sent
// again when the cause is gone, as after a full disk.
func (t *Table) Write(ctx context.Context, p wire.UploadWriteParams) (wire.UploadWriteResult, error) {
	u, err := t.claim(ctx, p.UploadID)
	if err != nil {
		return wire.UploadWriteResult{}, err
	}
	defer t.release(u)
	if u.state == committed {
		return wire.UploadWriteResult{}, about(p.UploadID, ErrCommitted)
	}
	if err := u.write(p.Offset, p.Chunk); err != nil {
		return wire.UploadWriteResult{}, err
	}
	return wire.UploadWriteResult{Received: u.have.total(), Offset: u.have.prefix()}, nil
}

// Status returns which parts were received.
func (t *Table) Status(ctx context.Context, p wire.UploadParams) (wire.UploadStatusResult, error) {
	u, err := t.claim(ctx, p.UploadID)
	if err != nil {
		return wire.UploadStatusResult{}, err
	}
	defer t.release(u)
	return wire.UploadStatusResult{
		Size: u.params.Size, Received: u.have.total(), Offset: u.have.prefix(),
		Ranges: u.have, Committed: u.state == committed,
	}, nil
}

// Commit moves the file to its target, which it returns unless an earlier request has done that. If it fails, the target is unchanged, and the
// upload stays: blocks may be sent again.
func (t *Table) Commit(ctx context.Context, p wire.UploadCommitParams) (target wire.PathURI, err error) {
	digest, err := hex.DecodeString(p.SHA256)
	if err != nil || len(digest) != sha256.Size {
		return target, refuse(ErrInvalid, "sha256 is not %d hexadecimal digits", 2*sha256.Size)
	}
	u, err := t.claim(ctx, p.UploadID)
	if err != nil {
		return target, err
	}
	defer t.release(u)
	if u.state == committed {
		if u.digest != [sha256.Size]byte(digest) {
			return target, refuse(ErrDigest, "upload %q %v with %x", p.UploadID, ErrCommitted, u.digest)
		}
		return target, nil
	}
	ctx, cancel := t.bound(ctx)
	defer cancel()
	if err := u.commit(ctx, [sha256.Size]byte(digest), t.sync); err != nil {
		return target, err
	}
	t.remember(u)
	return u.params.Path, nil
}

// Abort drops an upload. For an unknown upload it does nothing; a committed one
// is an error.
func (t *Table) Abort(ctx context.Context, p wire.UploadParams) error {
	u, err := t.claim(ctx, p.UploadID)
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	defer t.release(u)
	if u.state == committed {
		return about(p.UploadID, ErrCommitted)
	}
	return t.drop(u)
}

// Close drops all uploads. Writes and commits in progress end first, or are
// given up; later requests fail.
func (t *Table) Close() error {
	t.cancel(ErrEnded)
	t.mu.Lock()
	t.closed = true
	all := make([]*upload, 0, len(t.uploads))
	for _, u := range t.uploads {
		all = append(all, u)
	}
	t.mu.Unlock()
	var errs []error
	for _, u := range all {
		u.turn <- struct{}{}
		t.disarm(u)
		if u.state == receiving {
			errs = append(errs, t.drop(u))
		}
		u.unrecord()
		t.release(u)
	}
	t.timers.Wait()
	return errors.Join(errs...)
}

// claim finds an open or committed upload and waits until the caller holds
// it.
func (t *Table) claim(ctx context.Context, id string) (*upload, error) {
	for {
		t.mu.Lock()
		u, closed := t.uploads[id], t.closed
		t.mu.Unlock()
		switch {
		case closed:
			return nil, ended()
		case u == nil:
			return nil, unknown(id)
		}
		if err := t.take(ctx, u); err != nil {
			return nil, err
		}
		if u.state != gone {
			return u, nil
		}
		t.release(u) // it ended meanwhile: look again
	}
}

// take waits until the caller holds an upload.
func (t *Table) take(ctx context.Context, u *upload) error {
	select {
	case u.turn <- struct{}{}:
		t.disarm(u)
		return nil
	case <-ctx.Done():
		return failing("wait for upload "+strconv.Quote(u.params.UploadID), context.Cause(ctx))
	case <-t.ctx.Done():
		return ended()
	}
}

// release gives an upload back. If it is open, its idle time starts.
func (t *Table) release(u *upload) {
	if u.state == receiving {
		u.used = time.Now()
		t.arm(u)
	}
	u.turn.Free()
}

func (t *Table) arm(u *upload) {
	t.timers.Add(1)
	u.timer.Reset(t.idle)
}

func (t *Table) disarm(u *upload) {
	if u.timer.Stop() {
		t.timers.Done()
	}
}

// expire drops an upload that has been idle for too long. It runs on a timer; Close
// waits for it.
func (t *Table) expire(u *upload) {
	defer t.timers.Done()
	if !u.turn.TryTake() {
		return // a request holds it, and arms the timer afterwards
	}
	t.disarm(u) // a request has used it since
	if u.state == receiving && time.Since(u.used) >= t.idle {
		t.drop(u) // the error cannot be reported; the journal keeps the file's name
	}
	if u.state == receiving {
		t.arm(u) // u.used stays
	}
	u.turn.Free()
}

// drop ends an upload that the caller holds. The file's name stays in the journal
// if it could not be removed.
func (t *Table) drop(u *upload) error {
	t.forget(u)
	u.unrecord()
	if err := u.temp.remove(); err != nil {
		return failing("remove the temporary file", err)
	}
	return nil
}

// forget removes an upload that is not committed from the table.
func (t *Table) forget(u *upload) {
	u.state = gone
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.uploads, u.params.UploadID)
	t.open--
}

// remember keeps what a repeated commit needs, and forgets the oldest commit if
// there are too many.
func (t *Table) remember(u *upload) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	t.committed = append(t.committed, u.params.UploadID)
	if len(t.committed) > MaxCommitted {
		t.uploads[t.committed[0]].unrecord()
		delete(t.uploads, t.committed[0])
		t.committed = t.committed[1:]
	}
}

// bound returns a context that ends with ctx and with the table.
func (t *Table) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}
