package files

import (
	"context"
	"os"

	"github.com/tetherexec/tether/wire"
)

// Files serves file requests: this process with its own permissions ([Direct]), or
// a helper inside a sandbox. Paths are absolute and native. Errors are *[Error]
// with the text and code of the wire.
//
// Content that is read or written in large pieces is passed as an open file, so
// that the server handles the bytes in the same way for every implementation.
type Files interface {
	// Open opens a regular file to read. It never waits for a FIFO or a device.
	Open(ctx context.Context, path string, follow bool) (*os.File, error)
	// Replace creates or empties a file, to be written.
	Replace(ctx context.Context, path string) (*os.File, error)
	// WriteFile replaces the content of a file, all or nothing wherever a rename
	// changes nothing else about it.
	WriteFile(ctx context.Context, path string, data []byte, follow bool) error

	CreateDirectory(ctx context.Context, path string, recursive, follow bool) error
	Metadata(ctx context.Context, path string, follow bool) (wire.MetadataResult, error)
	Canonicalize(ctx context.Context, path string) (string, error)
	ReadDirectory(ctx context.Context, path string) ([]wire.DirectoryEntry, error)
	Walk(ctx context.Context, path string, options wire.WalkOptions) (wire.WalkResult, error)
	Remove(ctx context.Context, path string, how RemoveHow) error
	Copy(ctx context.Context, source, destination string, recursive bool) error
}

// Cached is an optional interface of Files.
type Cached interface {
	// ReadCached reads a whole file and follows links, if it never has to wait and b
	// is larger than the file. If it returns false, use Open.
	ReadCached(path string, b []byte) (n int, ok bool)
}

// RemoveHow are the options of fs/remove.
type RemoveHow struct {
	Recursive, Force, Follow bool
}

// Limits of file requests, as in the reference.
const (
	MaxReadFile    = 512 << 20 // bytes of fs/readFile
	MaxBlock       = 1 << 20   // bytes of fs/readBlock and fs/writeBlock
	MaxHandles     = 128       // open files per connection
	MaxHandleID    = 32        // bytes
	MaxDirectory   = 50_000    // entries of fs/readDirectory
	MaxWalkDepth   = 64
	MaxWalkDirs    = 10_000
	MaxWalkEntries = 50_000
	MaxWalkAnswer  = 4 << 20 // bytes, by walkItem and the lengths of URIs and messages
	walkItem       = 64
)
