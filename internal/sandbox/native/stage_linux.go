//go:build amd64 || arm64

package native

import (
	"bytes"
	"unsafe"
)

// endMark is behind the last instruction of the stage.
var endMark = []byte("htet" + "tsre" + "\x00ega" + "\ndne")

// maxStage bounds the text of the stage in bytes.
const maxStage = 4096

// stageCode returns the address of the stage.
func stageCode() *byte

// stageText returns the instructions of the stage.
func stageText() ([]byte, error) {
	begin := stageCode()
	for n := 0; n < maxStage; n++ {
		text := unsafe.Slice(begin, n+len(endMark))
		if bytes.HasSuffix(text, endMark) {
			return bytes.Clone(text[:n]), nil
		}
	}
	return nil, errNoStage
}
