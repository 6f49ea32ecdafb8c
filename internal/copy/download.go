package copy

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/filelock"
)

const (
	// copyBlock is how much of a download is written at a time.
	copyBlock = 256 << 10

	// copyCheckpoint is how much of a download is lost at most when this process is killed.
	copyCheckpoint = 8 << 20
)

// download fetches a file into a partial file beside the target, which is renamed when it is whole.
func (c *copier) download(ctx context.Context, it item) error {
	to, err := resolveLocal(it.to)
	if err != nil {
		return err
	}
	old, err := os.Stat(to)
	switch {
	case err == nil && old.IsDir():
		return ErrIsDirectory
	case err == nil && !old.Mode().IsRegular():
		return c.downloadToDevice(ctx, it, to)
	}
	source, err := c.files.Open(ctx, it.from)
	if err != nil {
		return err
	}
	defer source.Close()
	defer context.AfterFunc(ctx, func() { source.Close() })()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	c.Report.Resize(info.Size() - it.size)
	it.size, it.modified = info.Size(), info.ModTime()
	if told, ok := info.(files.FileInfo); ok {
		it.mode, it.hasMode = told.Permissions()
	}
	absolute, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	known := c.journal.find(it.from, absolute)
	if !known.sameSource(it.size, it.modified) {
		known = fileState{}
	}
	if known.Done && old != nil && old.Size() == it.size {
		if err := c.keepLocal(it, to); err != nil {
			return err
		}
		c.Report.Skip(it.size)
		c.copied(it, it.size, known.SHA256)
		return nil
	}
	p := &partialFile{copier: c, item: it, target: absolute, name: partName(it.from, absolute)}
	return p.fetch(ctx, source, known, old)
}

// resolveLocal follows a link, so that its target is replaced and not the link.
func resolveLocal(name string) (string, error) {
	info, err := os.Lstat(name)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return name, nil // errors show when it is written
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", fmt.Errorf("the link is broken: %s", Reason(err))
	}
	return real, nil
}

// downloadToDevice downloads to a device or a pipe.
func (c *copier) downloadToDevice(ctx context.Context, it item, to string) error {
	f, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	last := int64(0)
	err = c.files.Download(ctx, it.from, f, files.DownloadOptions{Progress: func(done, _ int64) {
		c.Report.Add(done - last)
		last = done
	}})
	if err = cmp.Or(err, f.Close()); err == nil {
		c.copied(it, 0, "")
	}
	return err
}

// A partialFile is a download that has not replaced its target yet.
type partialFile struct {
	*copier
	item
	target string
	name   string
	own    bool // it has the name that a later run can find
	file   *os.File
	sum    hash.Hash
	got    int64
	kept   int64 // the part of got that is from an earlier run
}

// fetch downloads. It continues where an earlier run stopped, if the partial file is as the journal says.
func (p *partialFile) fetch(ctx context.Context, source *files.File, known fileState, old fs.FileInfo) (err error) {
	release, err := p.open()
	if err != nil {
		return err
	}
	defer release()
	defer func() {
		if err == nil || p.resumable() && (ctx.Err() != nil || IsFatal(err)) {
			return
		}
		if left := dropPart(p.name); left != nil {
			err = errors.Join(err, left)
		}
	}()
	defer p.file.Close()
	if err := p.resume(ctx, known); err != nil {
		return err
	}
	if _, err := source.Seek(p.got, io.SeekStart); err != nil {
		return err
	}
	if err := p.receive(source); err != nil {
		if p.resumable() {
			p.checkpoint()
		}
		p.Report.Add(-p.got)
		return err
	}
	now, err := p.files.Stat(ctx, p.from)
	switch {
	case err != nil:
		return err
	case p.got != p.size && p.size != 0, now.Size() != p.size, !now.ModTime().Equal(p.modified):
		return files.ErrChanged
	}
	if p.Verify {
		if err := p.compare(ctx, io.NewSectionReader(p.file, 0, p.got), p.from); err != nil {
			return err
		}
	}
	if err := p.install(old); err != nil {
		return err
	}
	r := p.state()
	r.Done = true
	p.journal.put(p.from, p.target, r)
	p.copied(p.item, p.kept, r.SHA256)
	return nil
}

// open locks the partial file until release is called. If another copy has locked it, open makes a
// file of its own, which no later run continues.
func (p *partialFile) open() (release func(), err error) {
	p.own = true
	perm := fs.FileMode(0o666)
	if p.hasMode {
		perm = 0o600 // until it gets those of the source
	}
	if p.file, err = os.OpenFile(p.name, os.O_CREATE|os.O_RDWR, perm); err != nil {
		return nil, err
	}
	if release, err := filelock.Hold(p.file); err == nil {
		if p.isThere() {
			return release, nil
		}
		release()
	}
	p.file.Close()
	p.own, p.name = false, p.name+"."+rand.Text()[:8]
	p.file, err = os.OpenFile(p.name, os.O_CREATE|os.O_EXCL|os.O_RDWR, perm)
	return func() {}, err
}

// isThere reports whether the partial file still has its name: another copy may have renamed it.
func (p *partialFile) isThere() bool {
	ours, err := p.file.Stat()
	there, terr := os.Lstat(p.name)
	return err == nil && terr == nil && os.SameFile(ours, there)
}

// resumable reports whether a later run may continue the partial file.
func (p *partialFile) resumable() bool { return p.own && p.journal != nil && p.size >= worthResuming }

// resume computes the SHA-256 of the bytes that an earlier run has written, and begins again if it is
// not that of the journal.
func (p *partialFile) resume(ctx context.Context, known fileState) error {
	p.sum = sha256.New()
	if known.Got > 0 && p.own {
		n, err := io.Copy(p.sum, io.LimitReader(p.file, known.Got))
		if err != nil || n != known.Got || hex.EncodeToString(p.sum.Sum(nil)) != known.SHA256 {
			p.sum.Reset()
		} else {
			p.got, p.kept = n, n
			p.Report.Skip(n)
		}
	}
	if err := p.file.Truncate(p.got); err != nil {
		return err
	}
	_, err := p.file.Seek(p.got, io.SeekStart)
	return err
}

// receive writes the bytes of source until its end.
func (p *partialFile) receive(source io.Reader) error {
	buf := make([]byte, copyBlock)
	next := p.got + copyCheckpoint
	for {
		n, err := source.Read(buf)
		if n > 0 {
			if _, err := p.file.Write(buf[:n]); err != nil {
				return err
			}
			p.sum.Write(buf[:n])
			p.got += int64(n)
			p.Report.Add(int64(n))
			if p.got >= next {
				p.checkpoint()
				next += copyCheckpoint
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *partialFile) state() fileState {
	return fileState{Size: p.size, Modified: p.modified.UnixNano(), Got: p.got, SHA256: hex.EncodeToString(p.sum.Sum(nil))}
}

func (p *partialFile) checkpoint() { p.journal.put(p.from, p.target, p.state()) }

// install moves the file to its target. A new file gets the permissions of the source, without
// those of the umask; a file that is replaced keeps its permissions.
func (p *partialFile) install(old fs.FileInfo) error {
	var err error
	switch {
	case p.Preserve: // see below
	case old != nil:
		err = p.file.Chmod(old.Mode().Perm())
	case p.hasMode:
		err = p.file.Chmod(p.mode &^ p.Umask)
	}
	if err != nil {
		return err
	}
	if err := p.file.Close(); err != nil {
		return err
	}
	if err := p.keepLocal(p.item, p.name); err != nil {
		return err
	}
	return os.Rename(p.name, p.target)
}
