package codexhome

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unicode/utf8"

	"github.com/tetherexec/tether/internal/oserr"
	"github.com/tetherexec/tether/internal/toml"
	"github.com/tetherexec/tether/wire"
)

// Limits of what a request reads. Typical files are a hundred times smaller.
const (
	maxFile = 256 << 10 // bytes of one file
	maxAll  = 4 << 20   // bytes of all files that one request reads
)

// A reader reads the files of one request.
type reader struct {
	ctx  context.Context // ends with the request's client
	left int             // bytes that it may still read
}

func newReader(ctx context.Context) *reader { return &reader{ctx, maxAll} }

// A layer is one configuration file.
type layer struct {
	source string // shown by the client
	path   string
	config *toml.Table
}

// wire returns the part of the layer that the paths select, or nil.
func (l layer) wire(paths [][]string) (*wire.ConfigLayer, error) {
	selected := l.config.Keep(paths)
	if len(selected.Keys) == 0 {
		return nil, nil
	}
	text, err := selected.Text()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.path, err)
	}
	dir := wire.PathToURI(filepath.Dir(l.path))
	return &wire.ConfigLayer{Source: l.source, BaseDir: &dir, TOML: text}, nil
}

// A fileError says why a file could not be read or parsed. The text for the client
// depends on the kind of file.
type fileError struct {
	path   string
	read   error
	syntax *toml.SyntaxError
}

func (e *fileError) Error() string {
	if e.syntax != nil {
		return fmt.Sprintf("%s:%d:%d: %s", e.path, e.syntax.Line, e.syntax.Column, e.syntax.Message)
	}
	return e.readText()
}

func (e *fileError) Unwrap() error    { return e.read }
func (e *fileError) readText() string { return oserr.Text(e.read) }

// readTOML reads a configuration file. A file that does not exist is nil.
func (r *reader) readTOML(path string) (*toml.Table, *fileError) {
	if err := context.Cause(r.ctx); err != nil {
		return nil, &fileError{path: path, read: err}
	}
	document, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err == nil && len(document) > r.left {
		err = fmt.Errorf("configuration files are too large to read: limit is %d bytes for all together", maxAll)
	}
	if err != nil {
		return nil, &fileError{path: path, read: err}
	}
	r.left -= len(document)
	config, err := toml.Parse(r.ctx, document)
	if syntax, ok := errors.AsType[*toml.SyntaxError](err); ok {
		return nil, &fileError{path: path, syntax: syntax}
	}
	if err != nil {
		return nil, &fileError{path: path, read: err}
	}
	return config, nil
}

// readFile reads a regular file of limited size. It does not block on a FIFO.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("path `%s` is not a file", path)
	}
	document, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(document) > maxFile {
		return nil, fmt.Errorf("file is too large to read: limit is %d bytes", maxFile)
	}
	if at := notUTF8(document); at >= 0 {
		return nil, fmt.Errorf("invalid utf-8 sequence of 1 bytes from index %d", at)
	}
	return document, nil
}

// notUTF8 is the index of the first byte that is not UTF-8, or -1.
func notUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; ; {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
}
