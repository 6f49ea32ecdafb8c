package helper

import (
	"errors"
	"syscall"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

// Limits of the messages. The socket keeps their borders; what does not fit into
// one travels as a file in memory beside it.
const (
	MaxMessage = 64 << 10 // bytes on the socket
	MaxBook    = 64 << 20 // bytes of a rulebook
	MaxAnswer  = 64 << 20 // bytes of an answer
	MaxData    = files.MaxReadFile
)

// ErrMessage says that a message cannot be decoded.
var ErrMessage = errors.New("the message cannot be decoded")

// Op is what a message asks for.
type Op uint8

// The operations, named as in [files.Files].
const (
	OpRules  Op = iota // the first message: Body is a rulebook
	OpCancel           // nobody waits for the answer any more
	OpOpen
	OpReplace
	OpWriteFile // Body is the data
	OpCreateDirectory
	OpMetadata
	OpCanonicalize
	OpReadDirectory
	OpWalk
	OpRemove
	OpCopy
	opEnd
)

// A Request is a message to the helper. Answers carry its ID.
type Request struct {
	ID                       uint64
	Op                       Op
	Path, Target             string
	Follow, Recursive, Force bool
	Walk                     wire.WalkOptions

	Body []byte
	File bool // Body is in the file that comes along
}

// Append appends the encoded request.
func (r *Request) Append(b []byte) []byte {
	e := encoder(b)
	e.number(r.ID)
	e.number(uint64(r.Op))
	e.text(r.Path)
	e.text(r.Target)
	for _, f := range []bool{r.Follow, r.Recursive, r.Force, r.File, r.Op == OpWalk} {
		e.flag(f)
	}
	if w := r.Walk; r.Op == OpWalk {
		e.number(w.MaxDepth)
		e.number(w.MaxDirectories)
		e.number(w.MaxEntries)
		e.flag(w.FollowDirectorySymlinks)
		e.flag(w.PruneHiddenDirectories)
	}
	return append(e, r.Body...)
}

// DecodeRequest is the reverse of Append. Body is a part of b.
func DecodeRequest(b []byte) (*Request, error) {
	d := &decoder{rest: b}
	r := &Request{ID: d.number()}
	op := d.number()
	r.Op, r.Path, r.Target = Op(op), d.text(), d.text()
	r.Follow, r.Recursive, r.Force, r.File = d.flag(), d.flag(), d.flag(), d.flag()
	walk := d.flag()
	if walk {
		r.Walk = wire.WalkOptions{
			MaxDepth: d.number(), MaxDirectories: d.number(), MaxEntries: d.number(),
			FollowDirectorySymlinks: d.flag(), PruneHiddenDirectories: d.flag(),
		}
	}
	r.Body = d.rest
	if d.broken || op >= uint64(opEnd) || walk != (r.Op == OpWalk) {
		return nil, ErrMessage
	}
	return r, nil
}

// An Answer is a message from the helper.
type Answer struct {
	ID   uint64
	Err  error // nil: it went well
	Body []byte
	File bool // a file comes along: the one that was opened or, if Large, Body

	Large bool
}

// How an answer went.
const (
	wentWell uint64 = iota
	failedBySystem
	failed
)

// Append appends the encoded answer.
func (a *Answer) Append(b []byte) []byte {
	e := encoder(b)
	e.number(a.ID)
	e.flag(a.File)
	e.flag(a.Large)
	if a.Err == nil {
		e.number(wentWell)
		return append(e, a.Body...)
	}
	said := &files.Error{Err: a.Err}
	if inner, ok := errors.AsType[*files.Error](a.Err); ok {
		said = inner
	}
	// A bare error of the system keeps its identity.
	if errno, ok := errors.AsType[syscall.Errno](said); ok && (&files.Error{Err: errno}).Error() == said.Error() {
		e.number(failedBySystem)
		e.number(uint64(errno))
		return e
	}
	e.number(failed)
	e.signed(int64(said.Code()))
	e.text(said.Error())
	return e
}

// DecodeAnswer is the reverse of Append. Body is a part of b. Err has the text and
// the code that it had inside.
func DecodeAnswer(b []byte) (*Answer, error) {
	d := &decoder{rest: b}
	a := &Answer{ID: d.number(), File: d.flag(), Large: d.flag()}
	if a.Large && !a.File {
		d.fail()
	}
	switch how := d.number(); how {
	case wentWell:
		a.Body, d.rest = d.rest, nil
	case failedBySystem:
		errno := d.number()
		if errno == 0 || errno > maxErrno {
			d.fail()
		}
		a.Err = &files.Error{Err: syscall.Errno(errno)}
	case failed:
		a.Err = files.NewError(int(d.signed()), d.text())
	default:
		d.fail()
	}
	if !d.done() {
		return nil, ErrMessage
	}
	return a, nil
}

const maxErrno = 4095

// AppendMetadata encodes the answer to OpMetadata.
func AppendMetadata(b []byte, m wire.MetadataResult) []byte {
	e := encoder(b)
	e.flag(m.IsDirectory)
	e.flag(m.IsFile)
	e.flag(m.IsSymlink)
	e.number(m.Size)
	e.signed(m.CreatedAtMs)
	e.signed(m.ModifiedAtMs)
	mode := uint64(0)
	if m.TetherMode != nil {
		mode = uint64(*m.TetherMode)
	}
	e.number(mode)
	return e
}

// DecodeMetadata is the reverse of AppendMetadata.
func DecodeMetadata(b []byte) (m wire.MetadataResult, err error) {
	d := &decoder{rest: b}
	m.IsDirectory, m.IsFile, m.IsSymlink = d.flag(), d.flag(), d.flag()
	m.Size, m.CreatedAtMs, m.ModifiedAtMs = d.number(), d.signed(), d.signed()
	mode := uint32(min(d.number(), wire.MaxMode+1))
	if mode > wire.MaxMode {
		d.fail()
	}
	m.TetherMode = &mode
	if !d.done() {
		return wire.MetadataResult{}, ErrMessage
	}
	return m, nil
}

// AppendEntries encodes the answer to OpReadDirectory.
func AppendEntries(b []byte, entries []wire.DirectoryEntry) []byte {
	e := encoder(b)
	e.number(uint64(len(entries)))
	for _, entry := range entries {
		e.text(entry.FileName)
		e.flag(entry.IsDirectory)
		e.flag(entry.IsFile)
	}
	return e
}

// DecodeEntries is the reverse of AppendEntries.
func DecodeEntries(b []byte) ([]wire.DirectoryEntry, error) {
	d := &decoder{rest: b}
	entries := make([]wire.DirectoryEntry, 0, d.counted(3))
	for range cap(entries) {
		entries = append(entries, wire.DirectoryEntry{FileName: d.text(), IsDirectory: d.flag(), IsFile: d.flag()})
	}
	if !d.done() {
		return nil, ErrMessage
	}
	return entries, nil
}

// counted is a number of things of which each takes at least size bytes.
func (d *decoder) counted(size int) int {
	n := d.count()
	if n > len(d.rest)/size {
		d.fail()
		return 0
	}
	return n
}

// AppendWalk encodes the answer to OpWalk.
func AppendWalk(b []byte, w wire.WalkResult) []byte {
	e := encoder(b)
	e.flag(w.Truncated)
	e.number(uint64(len(w.Entries)))
	for _, entry := range w.Entries {
		e.text(entry.Path)
		e.flag(entry.Kind == wire.WalkDirectory)
	}
	e.number(uint64(len(w.Errors)))
	for _, err := range w.Errors {
		e.text(err.Path)
		e.text(err.Message)
	}
	return e
}

// DecodeWalk is the reverse of AppendWalk.
func DecodeWalk(b []byte) (wire.WalkResult, error) {
	d := &decoder{rest: b}
	w := wire.WalkResult{Truncated: d.flag()}
	w.Entries = make([]wire.WalkEntry, 0, d.counted(2))
	for range cap(w.Entries) {
		entry := wire.WalkEntry{Path: d.text(), Kind: wire.WalkFile}
		if d.flag() {
			entry.Kind = wire.WalkDirectory
		}
		w.Entries = append(w.Entries, entry)
	}
	w.Errors = make([]wire.WalkError, 0, d.counted(2))
	for range cap(w.Errors) {
		w.Errors = append(w.Errors, wire.WalkError{Path: d.text(), Message: d.text()})
	}
	if !d.done() {
		return wire.WalkResult{}, ErrMessage
	}
	return w, nil
}

// AppendBook encodes a rulebook.
func AppendBook(b []byte, book sandbox.Rulebook) []byte {
	e := encoder(b)
	e.number(uint64(len(book.Rules)))
	for _, r := range book.Rules {
		e.text(r.Path)
		e.number(uint64(r.Access))
		e.flag(r.Private)
		e.text(r.Absent)
	}
	e.number(uint64(len(book.Globs)))
	for _, g := range book.Globs {
		e.text(g.Dir)
		e.text(g.Pattern)
		e.number(g.Depth)
	}
	e.number(uint64(len(book.Ops)))
	for _, op := range book.Ops {
		e.number(uint64(op.Kind))
		e.text(op.Path)
	}
	return e
}

// DecodeBook is the reverse of AppendBook.
func DecodeBook(b []byte) (book sandbox.Rulebook, err error) {
	d := &decoder{rest: b}
	for range d.counted(4) {
		r := sandbox.BookRule{Path: d.text(), Access: sandbox.Access(d.number()), Private: d.flag(), Absent: d.text()}
		if r.Access < sandbox.Deny || r.Access > sandbox.Write {
			d.fail()
		}
		book.Rules = append(book.Rules, r)
	}
	for range d.counted(3) {
		book.Globs = append(book.Globs, sandbox.BookGlob{Dir: d.text(), Pattern: d.text(), Depth: d.number()})
	}
	for range d.counted(2) {
		op := sandbox.Op{Kind: sandbox.OpKind(d.number()), Path: d.text()}
		if op.Kind < 0 || op.Kind > sandbox.OpPlaceholder {
			d.fail()
		}
		book.Ops = append(book.Ops, op)
	}
	if !d.done() {
		return sandbox.Rulebook{}, ErrMessage
	}
	return book, nil
}
