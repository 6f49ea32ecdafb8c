package helper

import (
	"errors"
	"syscall"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/reexec"
	"github.com/tetherexec/tether/internal/sandbox"
	"github.com/tetherexec/tether/wire"
)

// Limits of the messages. The socket preserves their boundaries; larger data is
// sent as a file in memory beside the message.
const (
	MaxMessage = 64 << 10 // bytes on the socket
	MaxRules   = 64 << 20 // bytes of a rulebook
	MaxAnswer  = 64 << 20 // bytes of an answer
	MaxData    = files.MaxReadFile
)

// ErrMessage means that a message cannot be decoded.
var ErrMessage = errors.New("the message cannot be decoded")

// Op is the operation of a message.
type Op uint8

// The operations, named as in [files.Files].
const (
	OpRules  Op = iota // the first message: Body is a rulebook
	OpCancel           // the client has cancelled the request
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
	File bool // Body is in the file that comes with the message
}

// Append appends the encoded request.
func (r *Request) Append(b []byte) []byte {
	e := reexec.Encoder(b)
	e.Number(r.ID)
	e.Number(uint64(r.Op))
	e.Text(r.Path)
	e.Text(r.Target)
	for _, f := range []bool{r.Follow, r.Recursive, r.Force, r.File, r.Op == OpWalk} {
		e.Flag(f)
	}
	if w := r.Walk; r.Op == OpWalk {
		e.Number(w.MaxDepth)
		e.Number(w.MaxDirectories)
		e.Number(w.MaxEntries)
		e.Flag(w.FollowDirectorySymlinks)
		e.Flag(w.PruneHiddenDirectories)
	}
	return append(e, r.Body...)
}

// DecodeRequest is the reverse of Append. Body is a part of b.
func DecodeRequest(b []byte) (*Request, error) {
	d := reexec.Decode(b)
	r := &Request{ID: d.Number()}
	op := d.Number()
	r.Op, r.Path, r.Target = Op(op), d.Text(), d.Text()
	r.Follow, r.Recursive, r.Force, r.File = d.Flag(), d.Flag(), d.Flag(), d.Flag()
	walk := d.Flag()
	if walk {
		r.Walk = wire.WalkOptions{
			MaxDepth: d.Number(), MaxDirectories: d.Number(), MaxEntries: d.Number(),
			FollowDirectorySymlinks: d.Flag(), PruneHiddenDirectories: d.Flag(),
		}
	}
	r.Body = d.Rest()
	if !d.Done() || op >= uint64(opEnd) || walk != (r.Op == OpWalk) {
		return nil, ErrMessage
	}
	return r, nil
}

// An Answer is a message from the helper.
type Answer struct {
	ID   uint64
	Err  error // nil: success
	Body []byte
	File bool // a file comes with the message: the one that was opened or, if Large, Body

	Large bool
}

// The outcome of an answer.
const (
	wentWell uint64 = iota
	failedBySystem
	failed
)

// Append appends the encoded answer.
func (a *Answer) Append(b []byte) []byte {
	e := reexec.Encoder(b)
	e.Number(a.ID)
	e.Flag(a.File)
	e.Flag(a.Large)
	if a.Err == nil {
		e.Number(wentWell)
		return append(e, a.Body...)
	}
	sent := &files.Error{Err: a.Err}
	if inner, ok := errors.AsType[*files.Error](a.Err); ok {
		sent = inner
	}
	// A bare error of the system keeps its identity.
	if errno, ok := errors.AsType[syscall.Errno](sent); ok && (&files.Error{Err: errno}).Error() == sent.Error() {
		e.Number(failedBySystem)
		e.Number(uint64(errno))
		return e
	}
	e.Number(failed)
	e.Signed(int64(sent.Code()))
	e.Text(sent.Error())
	return e
}

// DecodeAnswer is the reverse of Append. Body is a part of b. Err has the text and
// the code that it had inside.
func DecodeAnswer(b []byte) (*Answer, error) {
	d := reexec.Decode(b)
	a := &Answer{ID: d.Number(), File: d.Flag(), Large: d.Flag()}
	if a.Large && !a.File {
		d.Fail()
	}
	switch how := d.Number(); how {
	case wentWell:
		a.Body = d.Rest()
	case failedBySystem:
		errno := d.Number()
		if errno == 0 || errno > maxErrno {
			d.Fail()
		}
		a.Err = &files.Error{Err: syscall.Errno(errno)}
	case failed:
		a.Err = files.NewError(int(d.Signed()), d.Text())
	default:
		d.Fail()
	}
	if !d.Done() {
		return nil, ErrMessage
	}
	return a, nil
}

const maxErrno = 4095

// AppendMetadata encodes the answer to OpMetadata.
func AppendMetadata(b []byte, m wire.MetadataResult) []byte {
	e := reexec.Encoder(b)
	e.Flag(m.IsDirectory)
	e.Flag(m.IsFile)
	e.Flag(m.IsSymlink)
	e.Number(m.Size)
	e.Signed(m.CreatedAtMs)
	e.Signed(m.ModifiedAtMs)
	mode := uint64(0)
	if m.TetherMode != nil {
		mode = uint64(*m.TetherMode)
	}
	e.Number(mode)
	return e
}

// DecodeMetadata is the reverse of AppendMetadata.
func DecodeMetadata(b []byte) (m wire.MetadataResult, err error) {
	d := reexec.Decode(b)
	m.IsDirectory, m.IsFile, m.IsSymlink = d.Flag(), d.Flag(), d.Flag()
	m.Size, m.CreatedAtMs, m.ModifiedAtMs = d.Number(), d.Signed(), d.Signed()
	mode := uint32(min(d.Number(), wire.MaxMode+1))
	if mode > wire.MaxMode {
		d.Fail()
	}
	m.TetherMode = &mode
	if !d.Done() {
		return wire.MetadataResult{}, ErrMessage
	}
	return m, nil
}

// AppendEntries encodes the answer to OpReadDirectory.
func AppendEntries(b []byte, entries []wire.DirectoryEntry) []byte {
	e := reexec.Encoder(b)
	e.Number(uint64(len(entries)))
	for _, entry := range entries {
		e.Text(entry.FileName)
		e.Flag(entry.IsDirectory)
		e.Flag(entry.IsFile)
	}
	return e
}

// DecodeEntries is the reverse of AppendEntries.
func DecodeEntries(b []byte) ([]wire.DirectoryEntry, error) {
	d := reexec.Decode(b)
	entries := make([]wire.DirectoryEntry, 0, d.Count(3))
	for range cap(entries) {
		entries = append(entries, wire.DirectoryEntry{FileName: d.Text(), IsDirectory: d.Flag(), IsFile: d.Flag()})
	}
	if !d.Done() {
		return nil, ErrMessage
	}
	return entries, nil
}

// AppendWalk encodes the answer to OpWalk.
func AppendWalk(b []byte, w wire.WalkResult) []byte {
	e := reexec.Encoder(b)
	e.Flag(w.Truncated)
	e.Number(uint64(len(w.Entries)))
	for _, entry := range w.Entries {
		e.Text(entry.Path)
		e.Flag(entry.Kind == wire.WalkDirectory)
	}
	e.Number(uint64(len(w.Errors)))
	for _, err := range w.Errors {
		e.Text(err.Path)
		e.Text(err.Message)
	}
	return e
}

// DecodeWalk is the reverse of AppendWalk.
func DecodeWalk(b []byte) (wire.WalkResult, error) {
	d := reexec.Decode(b)
	w := wire.WalkResult{Truncated: d.Flag()}
	w.Entries = make([]wire.WalkEntry, 0, d.Count(2))
	for range cap(w.Entries) {
		entry := wire.WalkEntry{Path: d.Text(), Kind: wire.WalkFile}
		if d.Flag() {
			entry.Kind = wire.WalkDirectory
		}
		w.Entries = append(w.Entries, entry)
	}
	w.Errors = make([]wire.WalkError, 0, d.Count(2))
	for range cap(w.Errors) {
		w.Errors = append(w.Errors, wire.WalkError{Path: d.Text(), Message: d.Text()})
	}
	if !d.Done() {
		return wire.WalkResult{}, ErrMessage
	}
	return w, nil
}

// AppendRules encodes the rules of a sandbox.
func AppendRules(b []byte, rules sandbox.Rulebook) []byte {
	e := reexec.Encoder(b)
	e.Number(uint64(len(rules.Rules)))
	for _, r := range rules.Rules {
		e.Text(r.Path)
		e.Number(uint64(r.Access))
		e.Flag(r.Private)
		e.Text(r.Absent)
	}
	e.Number(uint64(len(rules.Globs)))
	for _, g := range rules.Globs {
		e.Text(g.Dir)
		e.Text(g.Pattern)
		e.Number(g.Depth)
	}
	e.Number(uint64(len(rules.Ops)))
	for _, op := range rules.Ops {
		e.Number(uint64(op.Kind))
		e.Text(op.Path)
	}
	return e
}

// DecodeRules is the reverse of AppendRules.
func DecodeRules(b []byte) (rules sandbox.Rulebook, err error) {
	d := reexec.Decode(b)
	for range d.Count(4) {
		r := sandbox.BookRule{Path: d.Text(), Access: sandbox.Access(d.Number()), Private: d.Flag(), Absent: d.Text()}
		if r.Access < sandbox.Deny || r.Access > sandbox.Write {
			d.Fail()
		}
		rules.Rules = append(rules.Rules, r)
	}
	for range d.Count(3) {
		rules.Globs = append(rules.Globs, sandbox.BookGlob{Dir: d.Text(), Pattern: d.Text(), Depth: d.Number()})
	}
	for range d.Count(2) {
		op := sandbox.Op{Kind: sandbox.OpKind(d.Number()), Path: d.Text()}
		if op.Kind < 0 || op.Kind > sandbox.OpPlaceholder {
			d.Fail()
		}
		rules.Ops = append(rules.Ops, op)
	}
	if !d.Done() {
		return sandbox.Rulebook{}, ErrMessage
	}
	return rules, nil
}
