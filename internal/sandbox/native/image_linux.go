package native

import (
	"encoding/binary"
	"errors"
	"runtime"
)

const (
	imageBase     = 0x400000
	elfHeaderSize = 64
	elfPartSize   = 56
	elfParts      = 2
	imageTextAt   = elfHeaderSize + elfParts*elfPartSize
)

var errNoStage = errors.New("there is no native sandbox for this processor")

// machines are the numbers of processors in ELF headers.
var machines = map[string]uint16{"amd64": 62, "arm64": 183}

// Image returns the stage as a program.
func Image() ([]byte, error) {
	text, err := stageText()
	if err != nil {
		return nil, err
	}
	return image(text, machines[runtime.GOARCH]), nil
}

// image returns a static program of which the text is all.
func image(text []byte, machine uint16) []byte {
	const (
		executable      = 2
		partLoad        = 1
		partStack       = 0x6474e551
		execute    byte = 1
		write      byte = 2
		read       byte = 4
		pageSize        = 1 << 16 // the largest of arm64
	)
	le := binary.LittleEndian
	b := []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00") // 64 bits, little-endian
	b = le.AppendUint16(b, executable)
	b = le.AppendUint16(b, machine)
	b = le.AppendUint32(b, 1)
	b = le.AppendUint64(b, imageBase+imageTextAt) // the first instruction
	b = le.AppendUint64(b, elfHeaderSize)         // where the parts are described
	b = le.AppendUint64(b, 0)                     // no sections
	b = le.AppendUint32(b, 0)
	for _, n := range []uint16{elfHeaderSize, elfPartSize, elfParts, 0, 0, 0} {
		b = le.AppendUint16(b, n)
	}
	size := uint64(imageTextAt + len(text))
	part := func(kind uint32, rights byte, address, size, align uint64) {
		b = le.AppendUint32(b, kind)
		b = le.AppendUint32(b, uint32(rights))
		for _, n := range []uint64{0, address, address, size, size, align} {
			b = le.AppendUint64(b, n)
		}
	}
	part(partLoad, read|execute, imageBase, size, pageSize)
	part(partStack, read|write, 0, 0, 16)
	return append(b, text...)
}
