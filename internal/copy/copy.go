package copy

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/terminal"
)

// A Location is one end of a copy.
type Location struct {
	Remote bool // on the server's machine
	Path   string
}

func (l Location) String() string { return l.Name(l.Path) }

// Name returns a path on the side of the location, for people.
func (l Location) Name(path string) string {
	if l.Remote {
		return terminal.Name(":" + path)
	}
	return terminal.Name(path)
}

// MaxJobs is how many files are copied at a time, at most. A server accepts at most 16 open
// uploads of a session, including those of an interrupted copy.
const MaxJobs = 8

// A Config says what to copy, and how.
type Config struct {
	Sources     []Location // all on the same side
	Destination Location
	Preserve    bool                                   // keep times and permissions
	Verify      bool                                   // read every file once more on both sides, and compare
	Excluded    func(inside []string, isDir bool) bool // leave out this path below a source; nil: leave out nothing
	Jobs        int                                    // files at a time, from 1 to MaxJobs
	Stream      bool                                   // the source is a temporary file: ignore its time and permissions
	Umask       fs.FileMode                            // permissions that new local files do not get, see Umask
	Report      Reporter
}

// A Reporter gets the progress of a copy. Its methods are called by several goroutines.
type Reporter interface {
	Plan(files int, bytes int64) // the size of the whole copy
	Begin(name string)           // the copy of a file begins
	Add(n int64)                 // bytes were copied; negative if a file begins again
	Skip(n int64)                // bytes were copied by an earlier run
	Resize(by int64)             // a file has another size than planned
	Copied(File)
	Failed(Failure)
}

// A File was copied.
type File struct {
	From, To string
	Bytes    int64
	Resumed  int64  // of Bytes: from an earlier copy
	SHA256   string // if it is known
}

// A Failure is a file or directory that was not copied, or not as it should have been.
type Failure struct {
	From, To string
	At       Location // the source or the target, whichever the error is about
	Err      error
}

// A copier is a running copy.
type copier struct {
	Config
	client  *client.Client
	files   *files.Files
	journal *Journal

	mu    sync.Mutex
	fatal error // the session is lost
}

// Run copies. It returns only errors that end the whole copy; errors of single files are reported.
// The journal may be nil.
func Run(ctx context.Context, c *client.Client, j *Journal, cfg Config) error {
	return (&copier{Config: cfg, client: c, files: files.Of(c), journal: j}).run(ctx)
}

// run executes the plan.
func (c *copier) run(ctx context.Context) error {
	if c.Preserve && !c.client.Has(client.FeatureAttributes) {
		return ErrNoAttributes
	}
	p, err := c.plan(ctx)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, it := range p.files {
		total += it.size
	}
	c.Report.Plan(len(p.files), total)
	steps := []struct {
		items []item
		do    func(context.Context, item) error
	}{{p.directories, c.makeDirectory}, {p.files, c.copyFile}, {p.links, c.makeLink}}
	for _, s := range steps {
		if err := c.all(ctx, s.items, s.do); err != nil {
			return err
		}
	}
	if c.Preserve {
		return c.keepDirectories(ctx, p.directories)
	}
	return nil
}

// all makes the items, several at a time. An item that fails does not stop the others, unless the
// session is lost.
func (c *copier) all(ctx context.Context, items []item, do func(context.Context, item) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan item)
	var workers sync.WaitGroup
	for range min(c.Jobs, len(items)) {
		workers.Go(func() { // ends with the queue
			for it := range queue {
				if err := do(ctx, it); err != nil && !c.failed(ctx, it, err) {
					cancel()
				}
			}
		})
	}
	for _, it := range items {
		select {
		case queue <- it:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	workers.Wait()
	if c.fatal != nil {
		return c.fatal
	}
	return context.Cause(ctx)
}

// failed reports an error, and returns whether the other items can still be made.
func (c *copier) failed(ctx context.Context, it item, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, client.ErrSessionLost):
		c.fatal = err
		return false
	}
	at := Location{c.Destination.Remote, it.to}
	if e, ok := errors.AsType[*fs.PathError](err); ok && e.Path == it.from {
		at = Location{c.Sources[0].Remote, it.from}
	}
	c.Report.Failed(Failure{From: it.from, To: it.to, At: at, Err: err})
	return true
}

// leftOut reports a source that is not copied.
func (c *copier) leftOut(path string, err error) {
	c.Report.Failed(Failure{From: path, At: Location{c.Sources[0].Remote, path}, Err: err})
}

func (c *copier) copied(it item, resumed int64, sum string) {
	c.Report.Copied(File{From: it.from, To: it.to, Bytes: it.size, Resumed: resumed, SHA256: sum})
}

// errDiffers means that the copy has other bytes than the source.
var errDiffers = errors.New("the copy has other bytes than the source")

// makeDirectory makes a directory at the destination, if there is none.
func (c *copier) makeDirectory(ctx context.Context, it item) error {
	if !c.Destination.Remote {
		return os.MkdirAll(it.to, 0o777)
	}
	return RetryIdempotent(func() error { return c.files.MkdirAll(ctx, it.to) })
}

// makeLink makes a local link.
func (c *copier) makeLink(_ context.Context, it item) error {
	if old, err := os.Lstat(it.to); err == nil && !old.IsDir() {
		if text, err := os.Readlink(it.to); err == nil && text == it.link {
			return nil
		}
		if err := os.Remove(it.to); err != nil {
			return err
		}
	}
	return os.Symlink(it.link, it.to)
}

// copyFile copies one file.
func (c *copier) copyFile(ctx context.Context, it item) error {
	c.Report.Begin(filepath.Base(it.to))
	switch {
	case c.Sources[0].Remote && c.Destination.Remote:
		err := c.copyOnServer(ctx, it)
		if err == nil {
			c.Report.Add(it.size)
			c.copied(it, 0, "")
		}
		return err
	case c.Sources[0].Remote:
		return c.download(ctx, it)
	}
	return c.upload(ctx, it)
}

// copyOnServer lets the server copy a file or tree by itself.
func (c *copier) copyOnServer(ctx context.Context, it item) error {
	do := func() error { return c.files.Copy(ctx, it.from, it.to) }
	var err error
	if it.regular {
		err = RetryIdempotent(do)
	} else {
		err = do() // not repeated: a second copy of a link fails because of the first
	}
	if err != nil {
		return err
	}
	return c.keepRemote(ctx, it)
}

// RetryIdempotent repeats a change as long as its answer is lost. The change must be idempotent.
func RetryIdempotent(change func() error) error {
	for {
		err := change()
		if !errors.Is(err, client.ErrAmbiguous) || IsFatal(err) {
			return err
		}
	}
}

// IsFatal reports whether the session is lost, so that no further request can succeed.
func IsFatal(err error) bool {
	return errors.Is(err, client.ErrSessionLost) || errors.Is(err, client.ErrClosed) || errors.Is(err, context.Canceled)
}

// compare reads both files and compares their sums.
func (c *copier) compare(ctx context.Context, local io.Reader, remote string) error {
	here, there := sha256.New(), sha256.New()
	if _, err := io.Copy(here, local); err != nil {
		return err
	}
	if err := c.files.Download(ctx, remote, there, files.DownloadOptions{}); err != nil {
		return err
	}
	if string(here.Sum(nil)) != string(there.Sum(nil)) {
		return errDiffers
	}
	return nil
}
