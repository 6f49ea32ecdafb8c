package files

import (
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/wire"
)

// A request is about the file that the check has seen, even if a link is moved
// right after it was followed.
func TestScreenedSeesOneFile(t *testing.T) {
	setUp := func(t *testing.T) (dir string, s Screened) {
		dir = fixture(t)
		must(t, os.MkdirAll(dir+"/secret/sub", 0o755))
		write(t, dir+"/d/sub/open", "")
		write(t, dir+"/secret/sub/other", "")
		write(t, dir+"/secret/in", "secret text")
		write(t, dir+"/secret/other", "")
		must(t, os.Symlink("d", dir+"/swap"))
		return dir, Screened{Check: func(fd int) error {
			if real, ok := realPath(fd); !ok || strings.HasPrefix(real, dir+"/secret") {
				return unix.EACCES
			}
			must(t, os.Remove(dir+"/swap"))
			must(t, os.Symlink("secret", dir+"/swap"))
			return nil
		}}
	}
	t.Run("open", func(t *testing.T) {
		dir, s := setUp(t)
		file, err := s.Open(ctx, dir+"/swap/in", true)
		must(t, err)
		defer file.Close()
		if text, err := io.ReadAll(file); err != nil || string(text) == "secret text" {
			t.Errorf("%q %v", text, err)
		}
	})
	t.Run("metadata", func(t *testing.T) {
		dir, s := setUp(t)
		if m, err := s.Metadata(ctx, dir+"/swap/in", true); err != nil || m.Size == uint64(len("secret text")) {
			t.Errorf("%+v %v", m, err)
		}
	})
	t.Run("canonicalize", func(t *testing.T) {
		dir, s := setUp(t)
		if real, err := s.Canonicalize(ctx, dir+"/swap/in"); err != nil || real != dir+"/d/in" {
			t.Errorf("%q %v", real, err)
		}
	})
	t.Run("list", func(t *testing.T) {
		dir, s := setUp(t)
		entries, err := s.ReadDirectory(ctx, dir+"/swap")
		must(t, err)
		for _, e := range entries {
			if e.FileName == "other" {
				t.Errorf("%+v", entries)
			}
		}
	})
	t.Run("walk", func(t *testing.T) {
		dir, s := setUp(t)
		walk, err := s.Walk(ctx, dir+"/swap/sub", wire.WalkOptions{MaxDepth: 1, MaxDirectories: 9, MaxEntries: 99})
		if err == nil || len(walk.Entries) > 0 { // the root is looked up twice
			t.Errorf("%+v %v", walk, err)
		}
	})
}

// Screened gives the same results as Direct if the check accepts everything.
func TestScreenedAnswersLikeDirect(t *testing.T) {
	dir := fixture(t)
	screened := Screened{Check: func(int) error { return nil }}
	options := wire.WalkOptions{MaxDepth: 9, MaxDirectories: 99, MaxEntries: 999}
	for _, name := range []string{"f", "f/", "d", "d/in", "l", "dl", "dl/in", "dang", "loop", "loop/x", "fifo", "sock", "missing", "missing/x", "f/x", "/", "a\x00b", longName, longPath} {
		path := in(dir, name)
		for _, follow := range []bool{true, false} {
			file, err := direct.Open(ctx, path, follow)
			file.Close()
			file, err2 := screened.Open(ctx, path, follow)
			file.Close()
			sameAnswer(t, "open "+name, nil, nil, err, err2)
			m, err := direct.Metadata(ctx, path, follow)
			m2, err2 := screened.Metadata(ctx, path, follow)
			sameAnswer(t, "metadata "+name, m, m2, err, err2)
		}
		real, err := direct.Canonicalize(ctx, path)
		real2, err2 := screened.Canonicalize(ctx, path)
		sameAnswer(t, "canonicalize "+name, real, real2, err, err2)
		_, err = direct.ReadDirectory(ctx, path)
		_, err2 = screened.ReadDirectory(ctx, path)
		sameAnswer(t, "list "+name, nil, nil, err, err2)
		if name == "/" {
			continue // another process serves it: /proc
		}
		walk, err := direct.Walk(ctx, path, options)
		walk2, err2 := screened.Walk(ctx, path, options)
		sameAnswer(t, "walk "+name, len(walk.Entries), len(walk2.Entries), err, err2)
	}
}

func sameAnswer(t *testing.T, what string, a, b any, errA, errB error) {
	t.Helper()
	if !reflect.DeepEqual(a, b) || (errA == nil) != (errB == nil) || errA != nil && errA.Error() != errB.Error() {
		t.Errorf("%.40q: %v %v, want %v %v", what, b, errB, a, errA)
	}
}
