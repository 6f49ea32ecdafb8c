package main

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

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/internal/terminal"
)

const (
	// copyBlock is how much of a download is written at a time.
	copyBlock = 256 << 10

	// copyCheckpoint is how much of a download is lost at most when we are killed.
	copyCheckpoint = 8 << 20
)

// errDiffers means that what was copied is not what was there.
var errDiffers = errors.New("the copy has other bytes than the source")

// makeDirectory makes a directory at the destination, if there is none.
func (c *copying) makeDirectory(ctx context.Context, j job) error {
	if !c.destination.remote {
		return os.MkdirAll(j.to, 0o777)
	}
	return insist(func() error { return c.files.MkdirAll(ctx, j.to) })
}

// makeLink makes a local link.
func (c *copying) makeLink(_ context.Context, j job) error {
	if old, err := os.Lstat(j.to); err == nil && !old.IsDir() {
		if text, err := os.Readlink(j.to); err == nil && text == j.link {
			return nil
		}
		if err := os.Remove(j.to); err != nil {
			return err
		}
	}
	return os.Symlink(j.link, j.to)
}

// copyFile copies one file.
func (c *copying) copyFile(ctx context.Context, j job) error {
	c.progress.Begin(terminal.Name(filepath.Base(j.to)))
	switch {
	case c.sources[0].remote && c.destination.remote:
		err := c.copyOnServer(ctx, j)
		if err == nil {
			c.progress.Add(j.size)
			c.copied(j, 0, "")
		}
		return err
	case c.sources[0].remote:
		return c.download(ctx, j)
	}
	return c.upload(ctx, j)
}

// copyOnServer lets the server copy something by itself.
func (c *copying) copyOnServer(ctx context.Context, j job) error {
	do := func() error { return c.files.Copy(ctx, j.from, j.to) }
	var err error
	if j.regular {
		err = insist(do)
	} else {
		err = do() // a second copy of a link finds the first
	}
	if err != nil {
		return err
	}
	return c.keepRemote(ctx, j)
}

// insist repeats a change that does the same twice as once.
func insist(change func() error) error {
	for {
		err := change()
		if !errors.Is(err, client.ErrAmbiguous) || isFatal(err) {
			return err
		}
	}
}

// isFatal reports whether nothing more can be asked.
func isFatal(err error) bool {
	return errors.Is(err, client.ErrSessionLost) || errors.Is(err, client.ErrClosed) || errors.Is(err, context.Canceled)
}

// upload sends a file.
func (c *copying) upload(ctx context.Context, j job) error {
	from, err := filepath.Abs(j.from)
	if err != nil {
		return err
	}
	f, err := os.Open(j.from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c.progress.Resize(info.Size() - j.size)
	j.size, j.modified = info.Size(), info.ModTime()
	known := c.journal.find(from, j.to)
	if !known.sameSource(j.size, info.ModTime()) {
		known = record{}
	}
	if known.Done {
		if there, err := c.files.Stat(ctx, j.to); err == nil && there.Size() == j.size {
			if err := c.keepRemote(ctx, j); err != nil {
				return err
			}
			c.progress.Skip(j.size)
			c.copied(j, j.size, "")
			return nil
		}
	}
	now := record{Size: j.size, Modified: info.ModTime().UnixNano()}
	if c.conn.Has(client.FeatureUpload) && j.size >= worthResuming && c.journal != nil {
		if now.Upload = known.Upload; now.Upload == "" {
			now.Upload = newUploadID()
		}
		c.journal.setSession(c.conn.SessionID())
		c.journal.put(from, j.to, now)
	}
	resumed, err := c.send(ctx, f, j, now.Upload)
	if err != nil {
		return err
	}
	if after, err := f.Stat(); err != nil || after.Size() != j.size || !after.ModTime().Equal(info.ModTime()) {
		return errors.Join(client.ErrChanged, err)
	}
	if c.verify || !c.conn.Has(client.FeatureUpload) {
		if err := c.compare(ctx, io.NewSectionReader(f, 0, j.size), j.to); err != nil {
			return err
		}
	}
	if err := c.keepRemote(ctx, j); err != nil {
		return err
	}
	now.Upload, now.Done = "", true
	c.journal.put(from, j.to, now)
	c.copied(j, resumed, "")
	return nil
}

// send uploads, and counts. It returns how much was there already.
func (c *copying) send(ctx context.Context, f *os.File, j job, id string) (resumed int64, err error) {
	last, first := int64(0), true
	o := client.UploadOptions{Mode: j.mode, ID: id, Progress: func(done, _ int64) {
		if first && done > 0 && id != "" {
			resumed = done
			c.progress.Skip(done)
		} else {
			c.progress.Add(done - last)
		}
		first, last = false, done
	}}
	err = insist(func() error { return c.files.Upload(ctx, j.to, f, j.size, o) })
	if err != nil {
		c.progress.Add(-last)
	}
	return resumed, err
}

// compare reads both files and compares their sums.
func (c *copying) compare(ctx context.Context, local io.Reader, remote string) error {
	here, there := sha256.New(), sha256.New()
	if _, err := io.Copy(here, local); err != nil {
		return err
	}
	if err := c.files.Download(ctx, remote, there, client.DownloadOptions{}); err != nil {
		return err
	}
	if string(here.Sum(nil)) != string(there.Sum(nil)) {
		return errDiffers
	}
	return nil
}

// download fetches a file. It is written beside its place, where it is put when it is
// whole.
func (c *copying) download(ctx context.Context, j job) error {
	to, err := resolveLocal(j.to)
	if err != nil {
		return err
	}
	old, err := os.Stat(to)
	switch {
	case err == nil && old.IsDir():
		return errIsDirectory
	case err == nil && !old.Mode().IsRegular():
		return c.pour(ctx, j, to)
	}
	source, err := c.files.Open(ctx, j.from)
	if err != nil {
		return err
	}
	defer source.Close()
	defer context.AfterFunc(ctx, func() { source.Close() })()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	c.progress.Resize(info.Size() - j.size)
	j.size, j.modified = info.Size(), info.ModTime()
	if told, ok := info.(client.FileInfo); ok {
		j.mode, j.hasMode = told.Permissions()
	}
	absolute, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	known := c.journal.find(j.from, absolute)
	if !known.sameSource(j.size, j.modified) {
		known = record{}
	}
	if known.Done && old != nil && old.Size() == j.size {
		if err := c.keepLocal(j, to); err != nil {
			return err
		}
		c.progress.Skip(j.size)
		c.copied(j, j.size, known.SHA256)
		return nil
	}
	p := &part{copying: c, job: j, target: absolute, name: partName(j.from, absolute)}
	return p.fetch(ctx, source, known, old)
}

// resolveLocal follows a link, so that what it leads to is replaced and not the link.
func resolveLocal(name string) (string, error) {
	info, err := os.Lstat(name)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return name, nil // what is wrong shows when it is written
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", fmt.Errorf("the link leads nowhere: %w", cause(err))
	}
	return real, nil
}

// pour downloads to a device or a pipe.
func (c *copying) pour(ctx context.Context, j job, to string) error {
	f, err := os.OpenFile(to, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	last := int64(0)
	err = c.files.Download(ctx, j.from, f, client.DownloadOptions{Progress: func(done, _ int64) {
		c.progress.Add(done - last)
		last = done
	}})
	if err = cmp.Or(err, f.Close()); err == nil {
		c.copied(j, 0, "")
	}
	return err
}

// A part is a download that is not in its place yet.
type part struct {
	*copying
	job
	target string
	name   string
	own    bool // it has the name that a later run looks for
	file   *os.File
	sum    hash.Hash
	got    int64
	kept   int64 // of got: from an earlier run
}

// fetch downloads, from where an earlier run has stopped if it has left what it said.
func (p *part) fetch(ctx context.Context, source *client.File, known record, old fs.FileInfo) (err error) {
	release, err := p.open()
	if err != nil {
		return err
	}
	defer release()
	defer func() {
		if err == nil || p.resumable() && (ctx.Err() != nil || isFatal(err)) {
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
		p.progress.Add(-p.got)
		return err
	}
	now, err := p.files.Stat(ctx, p.from)
	switch {
	case err != nil:
		return err
	case p.got != p.size && p.size != 0, now.Size() != p.size, !now.ModTime().Equal(p.modified):
		return client.ErrChanged
	}
	if p.verify {
		if err := p.compare(ctx, io.NewSectionReader(p.file, 0, p.got), p.from); err != nil {
			return err
		}
	}
	if err := p.install(old); err != nil {
		return err
	}
	r := p.record()
	r.Done = true
	p.journal.put(p.from, p.target, r)
	p.copied(p.job, p.kept, r.SHA256)
	return nil
}

// open takes the part for us, until it is released. If another copy has it, this one
// makes its own, which nobody goes on with.
func (p *part) open() (release func(), err error) {
	p.own = true
	perm := fs.FileMode(0o666)
	if p.hasMode {
		perm = 0o600 // until it has those of the source
	}
	if p.file, err = os.OpenFile(p.name, os.O_CREATE|os.O_RDWR, perm); err != nil {
		return nil, err
	}
	release, held := hold(p.file)
	if held && p.isThere() {
		return release, nil
	}
	release()
	p.file.Close()
	p.own, p.name = false, p.name+"."+rand.Text()[:8]
	p.file, err = os.OpenFile(p.name, os.O_CREATE|os.O_EXCL|os.O_RDWR, perm)
	return func() {}, err
}

// isThere reports whether the part has not become somebody's file meanwhile.
func (p *part) isThere() bool {
	ours, err := p.file.Stat()
	there, terr := os.Lstat(p.name)
	return err == nil && terr == nil && os.SameFile(ours, there)
}

// resumable reports whether a later run may go on with the part.
func (p *part) resumable() bool { return p.own && p.journal != nil && p.size >= worthResuming }

// resume sums up what an earlier run has written, and begins anew if that is not what
// it said.
func (p *part) resume(ctx context.Context, known record) error {
	p.sum = sha256.New()
	if known.Got > 0 && p.own {
		n, err := io.Copy(p.sum, io.LimitReader(p.file, known.Got))
		if err != nil || n != known.Got || hex.EncodeToString(p.sum.Sum(nil)) != known.SHA256 {
			p.sum.Reset()
		} else {
			p.got, p.kept = n, n
			p.progress.Skip(n)
		}
	}
	if err := p.file.Truncate(p.got); err != nil {
		return err
	}
	_, err := p.file.Seek(p.got, io.SeekStart)
	return err
}

// receive writes what comes until the end of the file.
func (p *part) receive(source io.Reader) error {
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
			p.progress.Add(int64(n))
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

func (p *part) record() record {
	return record{Size: p.size, Modified: p.modified.UnixNano(), Got: p.got, SHA256: hex.EncodeToString(p.sum.Sum(nil))}
}

func (p *part) checkpoint() { p.journal.put(p.from, p.target, p.record()) }

// install puts the file in its place. A new one gets the permissions of the source as far as
// our umask allows, one that is replaced keeps its own.
func (p *part) install(old fs.FileInfo) error {
	var err error
	switch {
	case p.keep: // see below
	case old != nil:
		err = p.file.Chmod(old.Mode().Perm())
	case p.hasMode:
		err = p.file.Chmod(p.mode &^ p.umask)
	}
	if err != nil {
		return err
	}
	if err := p.file.Close(); err != nil {
		return err
	}
	if err := p.keepLocal(p.job, p.name); err != nil {
		return err
	}
	return os.Rename(p.name, p.target)
}
