package confine

import (
	"bytes"
	"encoding/binary"
	"io"
	"path/filepath"
	"strings"
)

const (
	interpreter = 3       // the type of the program header that names the loader
	maxLoader   = 4 << 10 // bytes of its path
)

// loaderOf returns the real path of the loader that a program needs, or nothing if it is linked statically. It reads
// the ELF headers itself: debug/elf would make tether larger by a hundredth, and most of that is about debugging.
func loaderOf(program io.ReaderAt) (string, error) {
	head := make([]byte, 64)
	if _, err := program.ReadAt(head, 0); err != nil || !bytes.HasPrefix(head, []byte("\x7fELF")) {
		return "", nil // another kind of program, on another system
	}
	u16, u32, u64 := binary.LittleEndian.Uint16, binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	if head[5] == 2 {
		u16, u32, u64 = binary.BigEndian.Uint16, binary.BigEndian.Uint32, binary.BigEndian.Uint64
	}
	wide := head[4] == 2 // 64 bits
	number := func(b []byte, narrowAt, wideAt int) int64 {
		if wide {
			return int64(u64(b[wideAt:]))
		}
		return int64(u32(b[narrowAt:]))
	}
	counts := head[42:]
	if wide {
		counts = head[54:]
	}
	offset, size, count := number(head, 28, 32), int64(u16(counts)), int64(u16(counts[2:]))
	part := make([]byte, 56) // the longer form up to the size in the file, or the whole shorter form
	for i := range count {
		if _, err := program.ReadAt(part[:min(size, int64(len(part)))], offset+i*size); err != nil {
			return "", err
		}
		if u32(part) != interpreter {
			continue
		}
		path := make([]byte, max(0, min(number(part, 16, 32), maxLoader)))
		if _, err := program.ReadAt(path, number(part, 4, 8)); err != nil {
			return "", err
		}
		return filepath.EvalSymlinks(strings.TrimRight(string(path), "\x00"))
	}
	return "", nil
}
