package fshelper

import (
	"context"
	"errors"
	"os"

	"github.com/tetherexec/tether/internal/fshelper/inside"
	"github.com/tetherexec/tether/internal/fsrpc"
	"github.com/tetherexec/tether/wire"
)

// maxInline is how much data travels in a message. More takes a file in memory.
const maxInline = inside.MaxMessage / 2

// files serves the requests of one policy. If everything may be read, this process
// reads, except for what every sandbox hides and what the kernel shows of itself; a helper
// does the rest.
type files struct {
	pool    *Pool
	binding *binding
	refusal error // why there is no helper; nil: there may be one
}

// read has this process read if everything may be read, otherwise, or if read
// returns [fsrpc.ErrElsewhere], the helper.
func read[T any](f *files, direct func(fsrpc.Screened) (T, error), confined func() (T, error)) (T, error) {
	if f.binding.fullRead {
		result, err := direct(fsrpc.Screened{Check: f.pool.screen()})
		if !errors.Is(err, fsrpc.ErrElsewhere) {
			return result, err
		}
	}
	return confined()
}

// ask has the helper do something. The file that comes with the answer is what
// was opened, or nil.
func (f *files) ask(ctx context.Context, r *inside.Request) (body []byte, file *os.File, err error) {
	if f.refusal != nil {
		return nil, nil, f.refusal
	}
	h, err := f.pool.use(ctx, f.binding)
	if err != nil {
		return nil, nil, err
	}
	return h.call(ctx, r) // gives it back
}

// do is ask for what has no answer but an error.
func (f *files) do(ctx context.Context, r *inside.Request) error {
	_, _, err := f.ask(ctx, r)
	return err
}

// Open implements fsrpc.Files.
func (f *files) Open(ctx context.Context, path string, follow bool) (*os.File, error) {
	return read(f, func(s fsrpc.Screened) (*os.File, error) {
		return s.Open(ctx, path, follow)
	}, func() (*os.File, error) {
		_, file, err := f.ask(ctx, &inside.Request{Op: inside.OpOpen, Path: path, Follow: follow})
		return file, err
	})
}

// Replace implements fsrpc.Files.
func (f *files) Replace(ctx context.Context, path string) (*os.File, error) {
	_, file, err := f.ask(ctx, &inside.Request{Op: inside.OpReplace, Path: path})
	return file, err
}

// WriteFile implements fsrpc.Files.
func (f *files) WriteFile(ctx context.Context, path string, data []byte, follow bool) error {
	return f.do(ctx, &inside.Request{Op: inside.OpWriteFile, Path: path, Body: data, Follow: follow})
}

// CreateDirectory implements fsrpc.Files.
func (f *files) CreateDirectory(ctx context.Context, path string, recursive, follow bool) error {
	return f.do(ctx, &inside.Request{Op: inside.OpCreateDirectory, Path: path, Recursive: recursive, Follow: follow})
}

// Metadata implements fsrpc.Files.
func (f *files) Metadata(ctx context.Context, path string, follow bool) (wire.MetadataResult, error) {
	return read(f, func(s fsrpc.Screened) (wire.MetadataResult, error) {
		return s.Metadata(ctx, path, follow)
	}, func() (wire.MetadataResult, error) {
		return askFor(ctx, f, &inside.Request{Op: inside.OpMetadata, Path: path, Follow: follow}, inside.DecodeMetadata)
	})
}

// Canonicalize implements fsrpc.Files.
func (f *files) Canonicalize(ctx context.Context, path string) (string, error) {
	return read(f, func(s fsrpc.Screened) (string, error) {
		return s.Canonicalize(ctx, path)
	}, func() (string, error) {
		body, _, err := f.ask(ctx, &inside.Request{Op: inside.OpCanonicalize, Path: path})
		return string(body), err
	})
}

// ReadDirectory implements fsrpc.Files.
func (f *files) ReadDirectory(ctx context.Context, path string) ([]wire.DirectoryEntry, error) {
	return read(f, func(s fsrpc.Screened) ([]wire.DirectoryEntry, error) {
		return s.ReadDirectory(ctx, path)
	}, func() ([]wire.DirectoryEntry, error) {
		return askFor(ctx, f, &inside.Request{Op: inside.OpReadDirectory, Path: path}, inside.DecodeEntries)
	})
}

// Walk implements fsrpc.Files.
func (f *files) Walk(ctx context.Context, path string, options wire.WalkOptions) (wire.WalkResult, error) {
	return read(f, func(s fsrpc.Screened) (wire.WalkResult, error) {
		return s.Walk(ctx, path, options)
	}, func() (wire.WalkResult, error) {
		return askFor(ctx, f, &inside.Request{Op: inside.OpWalk, Path: path, Walk: options}, inside.DecodeWalk)
	})
}

// Remove implements fsrpc.Files.
func (f *files) Remove(ctx context.Context, path string, how fsrpc.RemoveHow) error {
	return f.do(ctx, &inside.Request{Op: inside.OpRemove, Path: path, Recursive: how.Recursive, Force: how.Force, Follow: how.Follow})
}

// Copy implements fsrpc.Files.
func (f *files) Copy(ctx context.Context, source, destination string, recursive bool) error {
	return f.do(ctx, &inside.Request{Op: inside.OpCopy, Path: source, Target: destination, Recursive: recursive})
}

// askFor is ask for an answer that has to be decoded.
func askFor[T any](ctx context.Context, f *files, r *inside.Request, decode func([]byte) (T, error)) (T, error) {
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
