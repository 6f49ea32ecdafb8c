package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tetherexec/tether/wire"
)

func TestMetadata(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(at("dir"), 0o755))
	must(os.WriteFile(at("file"), []byte("hello world"), 0o644))
	must(os.Chtimes(at("file"), time.Time{}, time.UnixMilli(1_700_000_000_123)))
	must(os.Symlink("file", at("link")))
	must(os.Symlink("nowhere", at("dangling")))
	must(os.Symlink("dir", at("dirlink")))
	must(os.WriteFile(at("dir/inside"), nil, 0o644))

	type facts struct {
		dir, file, link bool
		size            uint64
	}
	for _, c := range []struct {
		name   string
		follow bool
		want   facts
		code   int
		text   string
	}{
		{name: "file", follow: true, want: facts{file: true, size: 11}},
		{name: "file", want: facts{file: true, size: 11}},
		{name: "dir", follow: true, want: facts{dir: true, size: 4096}},
		{name: "link", follow: true, want: facts{file: true, link: true, size: 11}},
		{name: "link", code: wire.CodeInvalidRequest, text: "path contains a symbolic link"},
		{name: "dangling", follow: true, code: wire.CodeNotFound, text: "No such file or directory (os error 2)"},
		{name: "missing", follow: true, code: wire.CodeNotFound, text: "No such file or directory (os error 2)"},
		{name: "missing", code: wire.CodeNotFound, text: "No such file or directory (os error 2)"},
		{name: "dirlink/inside", follow: true, want: facts{file: true}},
		{name: "dirlink/inside", code: wire.CodeInternal, text: "Not a directory (os error 20)"},
		{name: "file/x", follow: true, code: wire.CodeInternal, text: "Not a directory (os error 20)"},
	} {
		got, err := metadata(at(c.name), c.follow)
		if c.text != "" {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Code() != c.code || e.Error() != c.text {
				t.Errorf("%s (follow %v): error %v, want %d %q", c.name, c.follow, err, c.code, c.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s (follow %v): %v", c.name, c.follow, err)
			continue
		}
		if got.IsDirectory {
			got.Size = c.want.size // depends on the file system
		}
		if (facts{got.IsDirectory, got.IsFile, got.IsSymlink, got.Size}) != c.want {
			t.Errorf("%s (follow %v): %+v, want %+v", c.name, c.follow, got, c.want)
		}
		if c.name == "file" && got.ModifiedAtMs != 1_700_000_000_123 {
			t.Errorf("%s: modified at %d", c.name, got.ModifiedAtMs)
		}
		if got.CreatedAtMs < time.Now().Add(-time.Hour).UnixMilli() && got.CreatedAtMs != 0 {
			t.Errorf("%s: created at %d", c.name, got.CreatedAtMs)
		}
	}
}
