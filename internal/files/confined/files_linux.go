package confined

import (
	"context"
	"errors"
	"os"

	"github.com/tetherexec/tether/internal/files"
	"github.com/tetherexec/tether/internal/files/confined/helper"
	"github.com/tetherexec/tether/wire"
)

// maxInline is how much data is sent in a message. Larger data is sent as a
// file in memory.
const maxInline = helper.MaxMessage / 2

// policyFiles serves the requests of one policy. If everything may be read, this process
// reads, except for paths that every sandbox hides and for files of the kernel; a helper
// does the rest.
type policyFiles struct {
	pool    *Pool
	binding *binding
	refusal error // why there is no helper; nil: there may be one
}

// read lets this process read if everything may be read. Otherwise, or if
// direct returns [files.ErrElsewhere], the helper reads.
func read[T any](f *policyFiles, direct func(files.Screened) (T, error), confined func() (T, error)) (T, error) {
	if f.binding.fullRead {
		result, err := direct(files.Screened{Check: f.pool.screen()})
		if !errors.Is(err, files.ErrElsewhere) {
			return result, err
		}
	}
	return confined()
}

// ask sends a request to the helper. file is the file that the helper has
// opened, or nil.
func (f *policyFiles) ask(ctx context.Context, r *helper.Request) (body []byte, file *os.File, err error) {
	if f.refusal != nil {
		return nil, nil, f.refusal
	}
	h, err := f.pool.use(ctx, f.binding)
	if err != nil {
		return nil, nil, err
	}
	return h.call(ctx, r) // releases h
}

// do is ask for a request without a result.
func (f *policyFiles) do(ctx context.Context, r *helper.Request) error {
	_, _, err := f.ask(ctx, r)
	return err
}

// Open implements files.Files.
func (f *policyFiles) Open(ctx context.Context, path string, follow bool) (*os.File, error) {
	return read(f, func(s files.Screened) (*os.File, error) {
		return s.Open(ctx, path, follow)
	}, func() (*os.File, error) {
		_, file, err := f.ask(ctx, &helper.Request{Op: helper.OpOpen, Path: path, Follow: follow})
		return file, err
	})
}

// Replace implements files.Files.
func (f *policyFiles) Replace(ctx context.Context, path string) (*os.File, error) {
	_, file, err := f.ask(ctx, &helper.Request{Op: helper.OpReplace, Path: path})
	return file, err
}

// WriteFile implements files.Files.
func (f *policyFiles) WriteFile(ctx context.Context, path string, data []byte, follow bool) error {
	return f.do(ctx, &helper.Request{Op: helper.OpWriteFile, Path: path, Body: data, Follow: follow})
}

// CreateDirectory implements files.Files.
func (f *policyFiles) CreateDirectory(ctx context.Context, path string, recursive, follow bool) error {
	return f.do(ctx, &helper.Request{Op: helper.OpCreateDirectory, Path: path, Recursive: recursive, Follow: follow})
}

// Metadata implements files.Files.
func (f *policyFiles) Metadata(ctx context.Context, path string, follow bool) (wire.MetadataResult, error) {
	return read(f, func(s files.Screened) (wire.MetadataResult, error) {
		return s.Metadata(ctx, path, follow)
	}, func() (wire.MetadataResult, error) {
		return askFor(ctx, f, &helper.Request{Op: helper.OpMetadata, Path: path, Follow: follow}, helper.DecodeMetadata)
	})
}

// Canonicalize implements files.Files.
func (f *policyFiles) Canonicalize(ctx context.Context, path string) (string, error) {
	return read(f, func(s files.Screened) (string, error) {
		return s.Canonicalize(ctx, path)
	}, func() (string, error) {
		body, _, err := f.ask(ctx, &helper.Request{Op: helper.OpCanonicalize, Path: path})
		return string(body), err
	})
}

// ReadDirectory implements files.Files.
func (f *policyFiles) ReadDirectory(ctx context.Context, path string) ([]wire.DirectoryEntry, error) {
	return read(f, func(s files.Screened) ([]wire.DirectoryEntry, error) {
		return s.ReadDirectory(ctx, path)
	}, func() ([]wire.DirectoryEntry, error) {
		return askFor(ctx, f, &helper.Request{Op: helper.OpReadDirectory, Path: path}, helper.DecodeEntries)
	})
}

// Walk implements files.Files.
func (f *policyFiles) Walk(ctx context.Context, path string, options wire.WalkOptions) (wire.WalkResult, error) {
	return read(f, func(s files.Screened) (wire.WalkResult, error) {
		return s.Walk(ctx, path, options)
	}, func() (wire.WalkResult, error) {
		return askFor(ctx, f, &helper.Request{Op: helper.OpWalk, Path: path, Walk: options}, helper.DecodeWalk)
	})
}

// Remove implements files.Files.
func (f *policyFiles) Remove(ctx context.Context, path string, how files.RemoveHow) error {
	return f.do(ctx, &helper.Request{Op: helper.OpRemove, Path: path, Recursive: how.Recursive, Force: how.Force, Follow: how.Follow})
}

// Copy implements files.Files.
func (f *policyFiles) Copy(ctx context.Context, source, destination string, recursive bool) error {
	return f.do(ctx, &helper.Request{Op: helper.OpCopy, Path: source, Target: destination, Recursive: recursive})
}

// askFor is ask for a result that has to be decoded.
func askFor[T any](ctx context.Context, f *policyFiles, r *helper.Request, decode func([]byte) (T, error)) (T, error) {
	var none T
	body, _, err := f.ask(ctx, r)
	if err != nil {
		return none, err
	}
	answer, err := decode(body)
	if err != nil {
		return none, failure(err.Error())
	}
	return answer, nil
}
