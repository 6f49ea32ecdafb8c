//go:build !linux

package upload

import (
	"context"
	"os"

	"github.com/tetherexec/tether/wire"
)

// Supported says whether this system has uploads.
const Supported = false

// Direct refuses: uploads are implemented on Linux only.
func Direct(context.Context, string) (*os.File, string, error) { return nil, "", ErrUnsupported }

type temporary struct {
	file, dir    *os.File
	name, target string
}

func newTemporary(*os.File, string, *Journal) (*temporary, error) { return nil, ErrUnsupported }

func (*temporary) prepare(wire.UploadOpenParams) error { return ErrUnsupported }
func (*temporary) hide() error                         { return ErrUnsupported }
func (*temporary) rename() error                       { return ErrUnsupported }
func (*temporary) remove() error                       { return ErrUnsupported }
func (*temporary) isTarget() bool                      { return false }
func (*temporary) moved()                              {}

func reopenTemporary(dir, file *os.File, name, target string, _ *Journal) *temporary {
	return &temporary{file, dir, name, target}
}

func removeLeft(string, string) error { return ErrUnsupported }
