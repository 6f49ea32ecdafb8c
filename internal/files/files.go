package files

import (
	"context"
	"os"

	"github.com/tetherexec/tether/wire"
)

// Files is somebody who serves file requests: this process with its own rights
// ([Direct]), or a helper inside a sandbox. Paths are absolute and native. Errors
// are *[Error], whose text and code are the wire's.
//
// What is read or written in large pieces comes as an open file, so that the bytes
// take the same way whoever has opened it.
type Files interface {
	// Open opens a regular file to read. It never waits for a FIFO or a device.
	Open(ctx context.Context, path string, follow bool) (*os.File, error)
	// Replace makes or empties a file, to be written.
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

// Cached is what Files may be besides.
type Cached interface {
	// ReadCached reads a whole file, links followed, if that takes no waiting at all
	// and b is larger than it. False is that it was not possible: Open will tell.
	ReadCached(path string, b []byte) (n int, ok bool)
}

// RemoveHow are the choices of fs/remove.
type RemoveHow struct {
	Recursive, Force, Follow bool
}

// Limits of file requests, the reference's.
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
