package server

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"

	fastbase64 "github.com/segmentio/asm/base64"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/rpc"
	"github.com/tetherexec/tether/wire"
)

// maxCached is the largest file that readCached reads. Its answer is small enough
// to be written inline.
const maxCached = 8 << 10

type cachedFile [maxCached + 1]byte

var cachedFiles = sync.Pool{New: func() any { return new(cachedFile) }}

// readCached answers fs/readFile on the reading goroutine if the system has the file in memory: for a small file,
// another goroutine would take most of the time.
func (r *request) readCached(p *wire.ReadFileParams) bool {
	if p.Sandbox != nil || !wire.FollowsLinks(p.FollowSymlinks) {
		return false
	}
	path, err := p.Path.Native()
	if err != nil {
		return false
	}
	own, err := r.attachment.Session.Files(r.attachment.Context(), nil)
	if err != nil {
		return false
	}
	cached, ok := own.(files.Cached)
	if !ok {
		return false
	}
	content := cachedFiles.Get().(*cachedFile)
	defer cachedFiles.Put(content)
	n, ok := cached.ReadCached(path, content[:])
	if !ok {
		return false
	}
	msg := appendFileAnswer(make([]byte, 0, encodedSize(n)), r.ID)
	msg = appendBase64(msg, content[:n])
	r.ReplyEncoded(append(msg, fileAnswerEnd...))
	return true
}

// appendFileAnswer appends the answer to fs/readFile up to the content;
// fileAnswerEnd completes it.
func appendFileAnswer(b []byte, id wire.ID) []byte {
	b = append(b, `{"id":`...)
	b = id.AppendJSON(b)
	return append(b, `,"result":{"dataBase64":"`...)
}

const fileAnswerEnd = `"}}`

const (
	// maxWhole is the largest file that is read before its answer is written. A larger
	// file is read while its answer is written.
	maxWhole = 5 * len(filePiece{})

	// maxFileReads is how many files one connection may have open to answer fs/readFile.
	maxFileReads = 64
)

// readFile answers fs/readFile: the content goes straight into the message.
func (r *request) readFile(p *wire.ReadFileParams) error {
	f, err := r.reads(p.Path, p.Sandbox)
	if err != nil {
		return err
	}
	if err := r.conn.reading.Take(f.ctx); err != nil {
		return err
	}
	defer r.conn.reading.Free()
	file, err := f.Open(f.ctx, f.path, wire.FollowsLinks(p.FollowSymlinks))
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return &files.Error{Err: err}
	}
	size := info.Size()
	if size > files.MaxReadFile {
		return files.ErrTooLarge
	}
	if err := r.Permit(f.ctx, encodedSize(firstPart(size))); err != nil {
		return err
	}
	msg, more, err := appendFile(appendFileAnswer(make([]byte, 0, encodedSize(int(min(size, int64(maxWhole))))), r.ID), file)
	if err != nil {
		return err
	}
	if !more {
		r.ReplyEncoded(append(msg, fileAnswerEnd...))
		return nil
	}
	if size > int64(maxWhole) {
		streamFile(r.Request, msg, io.LimitReader(file, size-int64(maxWhole))) // bytes that are added meanwhile are not read
	} else {
		streamFile(r.Request, msg, &growingFile{file, files.MaxReadFile - int64(maxWhole)})
	}
	return nil
}

// firstPart is how much of a file of this size may be read before its answer is written. A
// file of size 0, such as those of /proc, may have any content.
func firstPart(size int64) int {
	if size == 0 {
		return maxWhole
	}
	return int(min(size, int64(maxWhole)))
}

// A growingFile is read beyond the size that was reported for it, up to a limit.
type growingFile struct {
	file io.Reader
	left int64
}

func (m *growingFile) Read(p []byte) (int, error) {
	n, err := m.file.Read(p)
	if m.left -= int64(n); m.left < 0 {
		return 0, files.ErrTooLarge
	}
	return n, err
}

// streamFile completes an answer with the content of a file, which is read while the
// client takes it.
func streamFile(r *rpc.Request, msg []byte, content io.Reader) {
	r.ReplyPieces(func(b []byte) ([]byte, bool, error) {
		if msg != nil {
			b, msg = msg, nil
			return b, true, nil
		}
		b, more, err := appendPiece(b, content)
		if err != nil {
			return nil, false, fmt.Errorf("a file cannot be read: %w", err)
		}
		if !more {
			b = append(b, fileAnswerEnd...)
		}
		return b, more, nil
	})
}

// A filePiece is the unit of reading. Its size is a multiple of 3, so that the base64
// encodings of pieces can be joined.
type filePiece [192 << 10]byte

var filePieces = sync.Pool{New: func() any { return new(filePiece) }}

// appendFile appends the content of a file in base64, up to maxWhole bytes, and reports
// whether there may be more.
func appendFile(b []byte, file io.Reader) (_ []byte, more bool, err error) {
	more = true
	for total := 0; more && total < maxWhole && err == nil; total += len(filePiece{}) {
		b, more, err = appendPiece(b, file)
	}
	return b, more, err
}

// appendPiece appends the next piece of a file, and reports whether there may be more.
func appendPiece(b []byte, file io.Reader) (_ []byte, more bool, err error) {
	piece := filePieces.Get().(*filePiece)
	defer filePieces.Put(piece)
	n, err := io.ReadFull(file, piece[:])
	b = appendBase64(b, piece[:n])
	switch {
	case err == nil:
		return b, true, nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return b, false, nil
	}
	return b, false, &files.Error{Err: err}
}

// appendBase64 appends the encoding of p, vectorised.
func appendBase64(b, p []byte) []byte {
	n := base64.StdEncoding.EncodedLen(len(p))
	start := len(b)
	if cap(b)-start < n {
		b = append(b, make([]byte, n)...)[:start]
	}
	fastbase64.StdEncoding.Encode(b[start:start+n], p)
	return b[:start+n]
}
