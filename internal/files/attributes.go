package files

import (
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/tetherexec/tether/wire"
)

// HasModes says whether files of this system have the permissions of the protocol.
const HasModes = runtime.GOOS != "windows"

// SetAttributes sets the permissions and the modification time of a file or directory;
// nil leaves them as they are. Links are followed.
func (Direct) SetAttributes(path string, mode *uint32, modifiedAtMs *int64) error {
	if mode != nil && *mode > wire.MaxMode {
		return failed(refuse(wire.CodeInvalidRequest, "mode %#o has more than permissions", *mode))
	}
	path, err := clean(path, true)
	if err != nil {
		return failed(err)
	}
	if modifiedAtMs != nil {
		if err := os.Chtimes(path, time.Time{}, time.UnixMilli(*modifiedAtMs)); err != nil {
			return failed(err)
		}
	}
	if mode != nil {
		return failed(os.Chmod(path, fs.FileMode(*mode)))
	}
	return nil
}
