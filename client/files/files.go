package files

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/wire"
)

// maxWholeFile is the size of the largest file that is sent in one message. Larger files are
// sent in blocks.
const maxWholeFile = 8 << 20

// ErrChanged means that a file was changed while it was being read: the bytes may be a
// mixture of several versions.
var ErrChanged = errors.New("file has changed")

// Files are the files of the executor, as far as a sandbox allows. It is safe for
// concurrent use.
//
// Paths are absolute paths of the executor, or file: URIs. Errors are
// *[fs.PathError]: errors.Is finds [fs.ErrNotExist] and similar errors in them. After a lost
// connection, a request that only reads is repeated. A request that changes something is
// repeated if it surely was not sent; otherwise its error is [client.ErrAmbiguous].
type Files struct {
	client  *client.Client
	sandbox *wire.Sandbox
}

// Of returns the files of the executor, with the rights of the server.
func Of(c *client.Client) *Files { return &Files{client: c} }

// Confined returns the files as far as a sandbox allows: the server refuses everything else.
func (f *Files) Confined(sandbox *wire.Sandbox) *Files { return &Files{f.client, sandbox} }

// confined reports whether the server has to enforce anything.
func (f *Files) confined() bool { return f.sandbox != nil && !f.sandbox.Disabled() }

// system is the executor's operating system, as runtime.GOOS names it, as far as it decides
// about the form of paths.
func (f *Files) system() string {
	if strings.EqualFold(f.client.Info().PlatformOS, "windows") {
		return "windows"
	}
	return "linux"
}

// uri parses a path.
func (f *Files) uri(name string) (wire.PathURI, error) {
	if strings.HasPrefix(name, "file:") {
		return wire.ParsePathURI(name)
	}
	system := f.system()
	if !isAbsolute(system, name) {
		return wire.PathURI{}, errors.New("path is not absolute")
	}
	return wire.PathURIOn(system, name), nil
}

func isAbsolute(system, name string) bool {
	if system != "windows" {
		return strings.HasPrefix(name, "/")
	}
	return strings.HasPrefix(name, `\\`) || len(name) > 2 && name[1] == ':' && (name[2] == '\\' || name[2] == '/')
}

// native is the path of a URI of the executor, or the URI itself if it has no path there.
func (f *Files) native(uri string) string {
	u, err := wire.ParsePathURI(uri)
	if err != nil {
		return uri
	}
	name, err := u.NativeOn(f.system())
	if err != nil {
		return uri
	}
	return name
}

// base is the last element of a path.
func base(name string) string {
	return path.Base(strings.ReplaceAll(name, `\`, "/"))
}

func unsupported(what string) error { return fmt.Errorf("%s: %w", what, client.ErrUnsupported) }

func protocolError(format string, args ...any) error {
	return &client.ProtocolError{Reason: fmt.Sprintf(format, args...)}
}

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// at runs an operation on a path and names both in its error.
func (f *Files) at(op, name string, do func(wire.PathURI) error) error {
	uri, err := f.uri(name)
	if err == nil {
		err = do(uri)
	}
	return pathError(op, name, err)
}

// ReadFile returns the content of a file.
func (f *Files) ReadFile(ctx context.Context, name string) (data []byte, err error) {
	info, err := f.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxWholeFile {
		var b sliceWriter
		b.data = make([]byte, 0, info.Size())
		err := f.Download(ctx, name, &b, DownloadOptions{})
		return b.data, err
	}
	err = f.at("read", name, func(uri wire.PathURI) error {
		var r wire.ReadFileResult
		err := f.client.Call(ctx, client.Idempotent, wire.MethodFsReadFile, wire.ReadFileParams{Path: uri, Sandbox: f.sandbox}, &r)
		data = r.DataBase64
		return err
	})
	return data, err
}

type sliceWriter struct{ data []byte }

func (w *sliceWriter) Write(b []byte) (int, error) {
	w.data = append(w.data, b...)
	return len(b), nil
}

// WriteFile makes a file with this content, or replaces the content of an existing file. Where
// the server can replace the file by a rename, it is all or nothing; a large file is sent as by
// Upload.
func (f *Files) WriteFile(ctx context.Context, name string, data []byte) error {
	if len(data) > maxWholeFile {
		return f.Upload(ctx, name, sliceReader(data), int64(len(data)), UploadOptions{})
	}
	return f.at("write", name, func(uri wire.PathURI) error { return f.writeWhole(ctx, uri, data) })
}

func (f *Files) writeWhole(ctx context.Context, uri wire.PathURI, data []byte) error {
	return f.client.Call(ctx, client.AtMostOnce, wire.MethodFsWriteFile,
		wire.WriteFileParams{Path: uri, DataBase64: base64.StdEncoding.EncodeToString(data), Sandbox: f.sandbox}, nil)
}

// A FileInfo describes a file. If the path is a symbolic link, all but IsLink describes the
// target of the link.
type FileInfo struct {
	name string
	meta wire.MetadataResult
}

var _ fs.FileInfo = FileInfo{}

// Name is the last element of the path.
func (i FileInfo) Name() string { return i.name }

// Size is in bytes.
func (i FileInfo) Size() int64 { return int64(i.meta.Size) }

// Mode has the type of the file; a file that is neither regular nor a directory is
// irregular. If its permissions are not known, Mode says that all users may read it.
func (i FileInfo) Mode() fs.FileMode {
	mode := modeOf(i.meta.IsDirectory, i.meta.IsFile)
	if perm, known := i.Permissions(); known {
		return mode.Type() | perm
	}
	return mode
}

// Permissions returns the permissions of the file. Servers without [client.FeatureAttributes] do
// not report them.
func (i FileInfo) Permissions() (perm fs.FileMode, known bool) {
	if i.meta.TetherMode == nil {
		return 0, false
	}
	return fs.FileMode(*i.meta.TetherMode).Perm(), true
}

// ModTime is when the content was last changed.
func (i FileInfo) ModTime() time.Time { return time.UnixMilli(i.meta.ModifiedAtMs) }

// Created is when the file was made; zero if that is not known.
func (i FileInfo) Created() time.Time {
	if i.meta.CreatedAtMs == 0 {
		return time.Time{}
	}
	return time.UnixMilli(i.meta.CreatedAtMs)
}

// IsDir reports whether it is a directory.
func (i FileInfo) IsDir() bool { return i.meta.IsDirectory }

// IsLink reports whether the path itself is a symbolic link.
func (i FileInfo) IsLink() bool { return i.meta.IsSymlink }

// Sys is the wire.MetadataResult.
func (i FileInfo) Sys() any { return i.meta }

// same reports whether both describe the same version of a file, judged by size, time and type.
func (i FileInfo) same(other FileInfo) bool {
	return i.meta.Size == other.meta.Size && i.meta.ModifiedAtMs == other.meta.ModifiedAtMs && i.meta.IsFile == other.meta.IsFile
}

func modeOf(isDirectory, isFile bool) fs.FileMode {
	switch {
	case isDirectory:
		return fs.ModeDir | 0o555
	case isFile:
		return 0o444
	}
	return fs.ModeIrregular | 0o444
}

// Stat describes a file. Links are followed: a link without a target does not exist.
func (f *Files) Stat(ctx context.Context, name string) (info FileInfo, err error) {
	err = f.at("stat", name, func(uri wire.PathURI) (err error) {
		info, err = f.stat(ctx, name, uri)
		return err
	})
	return info, err
}

func (f *Files) stat(ctx context.Context, name string, uri wire.PathURI) (FileInfo, error) {
	info := FileInfo{name: base(name)}
	params := wire.MetadataParams{Path: uri, Sandbox: f.sandbox}
	if f.client.Has(client.FeatureAttributes) {
		params.TetherMode = new(true)
	}
	err := f.client.Call(ctx, client.Idempotent, wire.MethodFsGetMetadata, params, &info.meta)
	return info, err
}

// ReadDir lists a directory, sorted by name. A link has the type of its target. The Info of an
// entry sends a request to the server.
func (f *Files) ReadDir(ctx context.Context, name string) (entries []fs.DirEntry, err error) {
	err = f.at("readdir", name, func(uri wire.PathURI) error {
		var r wire.ReadDirectoryResult
		if err := f.client.Call(ctx, client.Idempotent, wire.MethodFsReadDirectory, wire.ReadDirectoryParams{Path: uri, Sandbox: f.sandbox}, &r); err != nil {
			return err
		}
		dir := strings.TrimRight(f.native(uri.String()), `/\`)
		for _, e := range r.Entries {
			entries = append(entries, &dirEntry{f, dir + "/" + e.FileName, e})
		}
		slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
		return nil
	})
	return entries, err
}

type dirEntry struct {
	files *Files
	path  string
	entry wire.DirectoryEntry
}

func (e *dirEntry) Name() string      { return e.entry.FileName }
func (e *dirEntry) IsDir() bool       { return e.entry.IsDirectory }
func (e *dirEntry) Type() fs.FileMode { return modeOf(e.entry.IsDirectory, e.entry.IsFile).Type() }
func (e *dirEntry) String() string    { return fs.FormatDirEntry(e) }

// Info implements fs.DirEntry.
func (e *dirEntry) Info() (fs.FileInfo, error) {
	info, err := e.files.Stat(e.files.client.Lifetime(), e.path)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// Mkdir makes a directory. Its parent must exist.
func (f *Files) Mkdir(ctx context.Context, name string) error { return f.mkdir(ctx, name, false) }

// MkdirAll makes a directory and its missing parents. The directory may exist.
func (f *Files) MkdirAll(ctx context.Context, name string) error { return f.mkdir(ctx, name, true) }

func (f *Files) mkdir(ctx context.Context, name string, all bool) error {
	return f.at("mkdir", name, func(uri wire.PathURI) error {
		return f.client.Call(ctx, client.AtMostOnce, wire.MethodFsCreateDirectory,
			wire.CreateDirectoryParams{Path: uri, Recursive: &all, Sandbox: f.sandbox}, nil)
	})
}

// Attributes are the permissions and the time of a file. A nil field is not changed.
type Attributes struct {
	Permissions *fs.FileMode
	Modified    *time.Time // to the millisecond
}

// SetAttributes changes the attributes of a file or directory, on servers with
// [client.FeatureAttributes]. It cannot be confined.
func (f *Files) SetAttributes(ctx context.Context, name string, a Attributes) error {
	return f.at("set attributes", name, func(uri wire.PathURI) error {
		if !f.client.Has(client.FeatureAttributes) {
			return unsupported("setting permissions and times of files")
		}
		params := wire.SetAttributesParams{Path: uri, Sandbox: f.sandbox}
		if a.Permissions != nil {
			params.Mode = new(uint32(a.Permissions.Perm()))
		}
		if a.Modified != nil {
			params.ModifiedAtMs = new(a.Modified.UnixMilli())
		}
		return f.client.Call(ctx, client.AtMostOnce, wire.MethodFsSetAttributes, params, nil)
	})
}

// Remove removes a file, a link or an empty directory.
func (f *Files) Remove(ctx context.Context, name string) error { return f.remove(ctx, name, false) }

// RemoveAll removes the file or directory at a path, and everything below it. It need not exist.
func (f *Files) RemoveAll(ctx context.Context, name string) error { return f.remove(ctx, name, true) }

func (f *Files) remove(ctx context.Context, name string, all bool) error {
	return f.at("remove", name, func(uri wire.PathURI) error {
		return f.client.Call(ctx, client.AtMostOnce, wire.MethodFsRemove,
			wire.RemoveParams{Path: uri, Recursive: &all, Force: &all, Sandbox: f.sandbox}, nil)
	})
}

// Copy copies a file or a link on the executor, or a directory with everything in it.
func (f *Files) Copy(ctx context.Context, from, to string) error {
	return f.at("copy", from, func(source wire.PathURI) error {
		destination, err := f.uri(to)
		if err != nil {
			return pathError("copy", to, err)
		}
		return f.client.Call(ctx, client.AtMostOnce, wire.MethodFsCopy,
			wire.CopyParams{SourcePath: source, DestinationPath: destination, Recursive: true, Sandbox: f.sandbox}, nil)
	})
}

// Canonical returns the path of a file without links.
func (f *Files) Canonical(ctx context.Context, name string) (real string, err error) {
	err = f.at("canonicalize", name, func(uri wire.PathURI) error {
		var r wire.CanonicalizeResult
		err := f.client.Call(ctx, client.Idempotent, wire.MethodFsCanonicalize, wire.CanonicalizeParams{Path: uri, Sandbox: f.sandbox}, &r)
		real = f.native(r.Path)
		return err
	})
	return real, err
}

// Limits of a walk; servers refuse more.
const (
	maxWalkDepth       = 64
	maxWalkDirectories = 10_000
	maxWalkEntries     = 50_000
)

// WalkOptions bound a walk; 0 is the most that servers allow.
type WalkOptions struct {
	MaxDepth, MaxDirectories, MaxEntries int

	FollowLinks bool // also into directories behind links
	SkipHidden  bool // not into directories whose name starts with a dot
}

// A WalkResult is the result of a walk, sorted, entries of smaller depth first.
type WalkResult struct {
	Entries   []WalkEntry
	Errors    []WalkError
	Truncated bool // there are more entries than the limits allow
}

// A WalkEntry is a file or a directory.
type WalkEntry struct {
	Path  string
	IsDir bool
}

// A WalkError is a path that could not be read.
type WalkError struct{ Path, Message string }

func (e WalkError) Error() string { return "walk " + e.Path + ": " + e.Message }

// Walk lists all files and directories below a directory, in one request.
func (f *Files) Walk(ctx context.Context, name string, o WalkOptions) (*WalkResult, error) {
	limit := func(n, most int) uint64 {
		if n <= 0 || n > most {
			n = most
		}
		return uint64(n)
	}
	options := wire.WalkOptions{
		MaxDepth: limit(o.MaxDepth, maxWalkDepth), MaxDirectories: limit(o.MaxDirectories, maxWalkDirectories),
		MaxEntries: limit(o.MaxEntries, maxWalkEntries), FollowDirectorySymlinks: o.FollowLinks, PruneHiddenDirectories: o.SkipHidden,
	}
	result := new(WalkResult)
	err := f.at("walk", name, func(uri wire.PathURI) error {
		var r wire.WalkResult
		if err := f.client.Call(ctx, client.Idempotent, wire.MethodFsWalk, wire.WalkParams{Path: uri, Options: options, Sandbox: f.sandbox}, &r); err != nil {
			return err
		}
		result.Truncated = r.Truncated
		for _, e := range r.Entries {
			result.Entries = append(result.Entries, WalkEntry{f.native(e.Path), e.Kind == wire.WalkDirectory})
		}
		for _, e := range r.Errors {
			result.Errors = append(result.Errors, WalkError{f.native(e.Path), e.Message})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}
