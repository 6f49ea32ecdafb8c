package copy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
)

// upload sends a file, unless an earlier run has sent it.
func (c *copier) upload(ctx context.Context, it item) error {
	from, err := filepath.Abs(it.from)
	if err != nil {
		return err
	}
	f, err := os.Open(it.from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c.Report.Resize(info.Size() - it.size)
	it.size, it.modified = info.Size(), info.ModTime()
	known := c.journal.find(from, it.to)
	if !known.sameSource(it.size, it.modified) {
		known = fileState{}
	}
	if known.Done {
		if there, err := c.files.Stat(ctx, it.to); err == nil && there.Size() == it.size {
			if err := c.keepRemote(ctx, it); err != nil {
				return err
			}
			c.Report.Skip(it.size)
			c.copied(it, it.size, "")
			return nil
		}
	}
	now := fileState{Size: it.size, Modified: it.modified.UnixNano()}
	if c.client.Has(client.FeatureUpload) && it.size >= worthResuming && c.journal != nil {
		now.Upload = cmp.Or(known.Upload, newUploadID())
		c.journal.setSession(c.client.SessionID())
		c.journal.put(from, it.to, now)
	}
	resumed, err := c.uploadAndCheck(ctx, f, it, now.Upload)
	if err != nil {
		return err
	}
	now.Upload, now.Done = "", true
	c.journal.put(from, it.to, now)
	c.copied(it, resumed, "")
	return nil
}

// uploadAndCheck sends a file, checks that it has not changed meanwhile, and gives it its attributes.
func (c *copier) uploadAndCheck(ctx context.Context, f *os.File, it item, id string) (resumed int64, err error) {
	if resumed, err = c.send(ctx, f, it, id); err != nil {
		return 0, err
	}
	if after, err := f.Stat(); err != nil || after.Size() != it.size || !after.ModTime().Equal(it.modified) {
		return 0, errors.Join(files.ErrChanged, err)
	}
	if c.Verify || !c.client.Has(client.FeatureUpload) {
		if err := c.compare(ctx, io.NewSectionReader(f, 0, it.size), it.to); err != nil {
			return 0, err
		}
	}
	return resumed, c.keepRemote(ctx, it)
}

// send uploads a file and reports the progress. It returns how many bytes an earlier run has sent.
func (c *copier) send(ctx context.Context, f *os.File, it item, id string) (resumed int64, err error) {
	last, first := int64(0), true
	o := files.UploadOptions{Mode: it.mode, ID: id, Progress: func(done, _ int64) {
		if first && done > 0 && id != "" {
			resumed = done
			c.Report.Skip(done)
		} else {
			c.Report.Add(done - last)
		}
		first, last = false, done
	}}
	err = RetryIdempotent(func() error { return c.files.Upload(ctx, it.to, f, it.size, o) })
	if err != nil {
		c.Report.Add(-last)
	}
	return resumed, err
}
