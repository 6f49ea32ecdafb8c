package fshelper

import (
	"context"
	"os"

	"github.com/tetherexec/tether/internal/fshelper/inside"
	"github.com/tetherexec/tether/internal/fsrpc"
	"github.com/tetherexec/tether/wire"
)

// maxInline is how much data travels in a message. More takes a file in memory.
const maxInline = inside.MaxMessage / 2

// files serves the requests of one policy: what it leaves open is done here, the
// rest by a helper.
type files struct {
	pool    *Pool
	binding *binding
	refusal error // why there is no helper; nil: there may be one
}

// direct is who reads if everything may be read.
func (f *files) direct() fsrpc.Files { return f.pool.config.Direct }

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
	if f.binding.fullRead && !named(path) {
		file, err := f.direct().Open(ctx, path, follow)
		if err != nil || !special(file) {
			return file, err
		}
		file.Close()
	}
	_, file, err := f.ask(ctx, &inside.Request{Op: inside.OpOpen, Path: path, Follow: follow})
	return file, err
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
func (f *files) Metadata(ctx context.Context, path string, follow bool) (m wire.MetadataResult, err error) {
	if f.binding.fullRead && !leadsToSpecial(path) {
		return f.direct().Metadata(ctx, path, follow)
	}
	body, _, err := f.ask(ctx, &inside.Request{Op: inside.OpMetadata, Path: path, Follow: follow})
	if err != nil {
		return m, err
	}
	return decoded(inside.DecodeMetadata(body))
}

// Canonicalize implements fsrpc.Files.
func (f *files) Canonicalize(ctx context.Context, path string) (string, error) {
	if f.binding.fullRead && !leadsToSpecial(path) {
		return f.direct().Canonicalize(ctx, path)
	}
	body, _, err := f.ask(ctx, &inside.Request{Op: inside.OpCanonicalize, Path: path})
	return string(body), err
}

// ReadDirectory implements fsrpc.Files.
func (f *files) ReadDirectory(ctx context.Context, path string) ([]wire.DirectoryEntry, error) {
	if f.binding.fullRead && !leadsToSpecial(path) {
		return f.direct().ReadDirectory(ctx, path)
	}
	body, _, err := f.ask(ctx, &inside.Request{Op: inside.OpReadDirectory, Path: path})
	if err != nil {
		return nil, err
	}
	return decoded(inside.DecodeEntries(body))
}

// Walk implements fsrpc.Files. A walk that may come to /proc is not for this process.
func (f *files) Walk(ctx context.Context, path string, options wire.WalkOptions) (result wire.WalkResult, err error) {
	if f.binding.fullRead && !options.FollowDirectorySymlinks && path != "/" && !leadsToSpecial(path) {
		return f.direct().Walk(ctx, path, options)
	}
	body, _, err := f.ask(ctx, &inside.Request{Op: inside.OpWalk, Path: path, Walk: options})
	if err != nil {
		return result, err
	}
	return decoded(inside.DecodeWalk(body))
}

// Remove implements fsrpc.Files.
func (f *files) Remove(ctx context.Context, path string, how fsrpc.RemoveHow) error {
	return f.do(ctx, &inside.Request{Op: inside.OpRemove, Path: path, Recursive: how.Recursive, Force: how.Force, Follow: how.Follow})
}

// Copy implements fsrpc.Files.
func (f *files) Copy(ctx context.Context, source, destination string, recursive bool) error {
	return f.do(ctx, &inside.Request{Op: inside.OpCopy, Path: source, Target: destination, Recursive: recursive})
}

// decoded words the error of an answer that makes no sense.
func decoded[T any](answer T, err error) (T, error) {
	if err != nil {
		return answer, failure(err.Error())
	}
	return answer, nil
}
