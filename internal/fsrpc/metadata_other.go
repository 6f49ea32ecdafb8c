//go:build !linux

package fsrpc

import (
	"os"

	"github.com/tetherexec/tether/wire"
)

// Metadata returns the facts about path. Only following is supported here, and
// creation times are unknown.
func Metadata(path string, follow bool) (wire.MetadataResult, error) {
	self, err := os.Lstat(path)
	if err != nil {
		return wire.MetadataResult{}, &Error{err}
	}
	link := self.Mode()&os.ModeSymlink != 0
	if link && !follow {
		return wire.MetadataResult{}, &Error{ErrSymlink}
	}
	info, err := os.Stat(path)
	if err != nil {
		return wire.MetadataResult{}, &Error{err}
	}
	return wire.MetadataResult{
		IsDirectory: info.IsDir(), IsFile: info.Mode().IsRegular(), IsSymlink: link,
		Size: uint64(info.Size()), ModifiedAtMs: info.ModTime().UnixMilli(),
	}, nil
}
