package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash"
	"io"
)

// readSize is how much of a file is read at once to hash or compare it.
const readSize = 256 << 10

// A prefixSum is the SHA-256 of the first bytes of a file. It grows with blocks that
// arrive in order, so that a commit need not read a large file again.
type prefixSum struct {
	hash hash.Hash
	upto uint64 // bytes
}

func (s *prefixSum) reset() { *s = prefixSum{hash: sha256.New()} }

// add adds a block, if it is the next one.
func (s *prefixSum) add(offset uint64, block []byte) {
	if offset == s.upto {
		s.hash.Write(block)
		s.upto += uint64(len(block))
	}
}

// follow reads the file until the sum covers its first end bytes.
func (s *prefixSum) follow(ctx context.Context, file io.ReaderAt, end uint64) error {
	if s.upto >= end {
		return nil
	}
	buf := make([]byte, min(readSize, end-s.upto))
	for s.upto < end {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		part := buf[:min(uint64(len(buf)), end-s.upto)]
		if _, err := file.ReadAt(part, int64(s.upto)); err != nil {
			return err
		}
		s.add(s.upto, part)
	}
	return nil
}

func (s *prefixSum) value() (sum [sha256.Size]byte) {
	s.hash.Sum(sum[:0])
	return sum
}

// holds reports whether the file has these bytes at offset.
func holds(file io.ReaderAt, offset uint64, block []byte) (bool, error) {
	buf := make([]byte, min(readSize, len(block)))
	for len(block) > 0 {
		part := buf[:min(len(buf), len(block))]
		if _, err := file.ReadAt(part, int64(offset)); err != nil {
			return false, err
		}
		if !bytes.Equal(part, block[:len(part)]) {
			return false, nil
		}
		block = block[len(part):]
		offset += uint64(len(part))
	}
	return true, nil
}
