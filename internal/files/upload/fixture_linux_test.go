package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetherexec/tether/wire"
)

// A site is a directory to upload to, and a table of uploads.
type site struct {
	*testing.T
	dir, journal string
	table        *Table
}

func newSite(t *testing.T) *site { return siteIn(t, t.TempDir()) }

func siteIn(t *testing.T, dir string) *site {
	t.Helper()
	s := &site{T: t, dir: dir, journal: filepath.Join(t.TempDir(), "uploads")}
	journal, err := OpenJournal(s.journal)
	if err != nil {
		t.Fatal(err)
	}
	s.table = New(Config{Journal: journal})
	t.Cleanup(func() {
		if err := s.table.Close(); err != nil {
			t.Error(err)
		}
		s.clean()
	})
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func uri(path string) wire.PathURI {
	u, err := wire.ParsePathURI("file://" + path)
	if err != nil {
		panic(err)
	}
	return u
}

func (s *site) params(id, name string, size int) wire.UploadOpenParams {
	return wire.UploadOpenParams{UploadID: id, Path: uri(s.path(name)), Size: uint64(size)}
}

func (s *site) tryOpen(p wire.UploadOpenParams) (wire.UploadOpenResult, error) {
	return s.table.Open(context.Background(), Direct, p)
}

func (s *site) open(id, name string, size int) wire.UploadOpenResult {
	s.Helper()
	r, err := s.tryOpen(s.params(id, name, size))
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func (s *site) tryWrite(id string, offset int, data []byte) (wire.UploadWriteResult, error) {
	return s.table.Write(context.Background(), wire.UploadWriteParams{UploadID: id, Offset: uint64(offset), Chunk: data})
}

func (s *site) write(id string, offset int, data []byte) wire.UploadWriteResult {
	s.Helper()
	r, err := s.tryWrite(id, offset, data)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func (s *site) status(id string) wire.UploadStatusResult {
	s.Helper()
	r, err := s.table.Status(context.Background(), wire.UploadParams{UploadID: id})
	if err != nil {
		s.Fatal(err)
	}
	return r
}

func (s *site) tryCommit(id string, data []byte) error {
	sum := sha256.Sum256(data)
	_, err := s.table.Commit(context.Background(), wire.UploadCommitParams{UploadID: id, SHA256: hex.EncodeToString(sum[:])})
	return err
}

func (s *site) commit(id string, data []byte) {
	s.Helper()
	if err := s.tryCommit(id, data); err != nil {
		s.Fatal(err)
	}
}

func (s *site) abort(id string) {
	s.Helper()
	if err := s.table.Abort(context.Background(), wire.UploadParams{UploadID: id}); err != nil {
		s.Fatal(err)
	}
}

func (s *site) put(name, content string, mode os.FileMode) {
	s.Helper()
	if err := os.WriteFile(s.path(name), []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
	if err := os.Chmod(s.path(name), mode); err != nil {
		s.Fatal(err)
	}
}

// holds checks the content of a file.
func (s *site) holds(name string, want []byte) {
	s.Helper()
	got, err := os.ReadFile(s.path(name))
	if err != nil {
		s.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		s.Errorf("%s has %d bytes (%.20q…), want %d (%.20q…)", name, len(got), got, len(want), want)
	}
}

// left returns the temporary files below the site.
func (s *site) left() []string {
	s.Helper()
	var left []string
	err := filepath.WalkDir(s.dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), tempPrefix) {
			left = append(left, path)
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return left
}

// clean checks that there is no temporary file and that the journal is empty.
func (s *site) clean() {
	s.Helper()
	if left := s.left(); len(left) > 0 {
		s.Errorf("left behind: %v", left)
	}
	if entries, err := os.ReadDir(s.journal); err != nil || len(entries) > 0 {
		s.Errorf("journal has %v, %v", entries, err)
	}
}

// fails checks an error and its code.
func (s *site) fails(err, want error, code int) {
	s.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || !errors.Is(err, want) || e.Code() != code {
		s.Errorf("got %v (%T), want %v with code %d", err, err, want, code)
	}
}

// noise returns n bytes without repetitions.
func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}
