package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"github.com/tetherexec/tether/client"
	"github.com/tetherexec/tether/client/files"
	"github.com/tetherexec/tether/internal/cable"
	"github.com/tetherexec/tether/internal/server"
	"github.com/tetherexec/tether/internal/tethertest"
	"github.com/tetherexec/tether/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t testing.TB, url string, o client.Options) *client.Client {
	t.Helper()
	c, err := client.Dial(tethertest.Within(t), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// filesOf returns the files of a new server without a cable.
func filesOf(t *testing.T) *files.Files {
	return files.Of(dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{}))
}

func writeLocal(t testing.TB, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFilesBasics(t *testing.T) {
	t.Parallel()
	remote, ctx, dir := filesOf(t), tethertest.Within(t), t.TempDir()
	name := filepath.Join(dir, "a b#%", "file.txt")
	steps := []struct {
		what string
		do   func() error
	}{
		{"MkdirAll", func() error { return remote.MkdirAll(ctx, filepath.Dir(name)) }},
		{"Mkdir", func() error { return remote.Mkdir(ctx, filepath.Join(dir, "empty")) }},
		{"WriteFile", func() error { return remote.WriteFile(ctx, name, []byte("hello")) }},
		{"Copy", func() error { return remote.Copy(ctx, filepath.Dir(name), filepath.Join(dir, "copy")) }},
		{"Remove", func() error { return remote.Remove(ctx, filepath.Join(dir, "empty")) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatalf("%s: %v", s.what, err)
		}
	}
	for _, path := range []string{name, filepath.Join(dir, "copy", "file.txt"), wire.PathToURI(name)} {
		if got, err := remote.ReadFile(ctx, path); string(got) != "hello" || err != nil {
			t.Errorf("ReadFile(%s): %q, %v", path, got, err)
		}
	}
	if info, err := remote.Stat(ctx, name); err != nil || info.Size() != 5 || info.Name() != "file.txt" || !info.Mode().IsRegular() ||
		time.Since(info.ModTime()) > time.Minute || info.IsLink() {
		t.Errorf("Stat: %+v, %v", info, err)
	}
	if entries, err := remote.ReadDir(ctx, dir); err != nil || len(entries) != 2 || entries[0].Name() != "a b#%" || !entries[1].IsDir() {
		t.Errorf("ReadDir: %v, %v", entries, err)
	}
	walk, err := remote.Walk(ctx, dir, files.WalkOptions{})
	if err != nil || len(walk.Entries) != 4 || walk.Truncated || walk.Entries[2].Path != name {
		t.Errorf("Walk: %+v, %v", walk, err)
	}
	if err := remote.RemoveAll(ctx, dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after RemoveAll: %v", err)
	}
}

func TestFilesLinks(t *testing.T) {
	t.Parallel()
	remote, ctx := filesOf(t), tethertest.Within(t)
	target := writeLocal(t, []byte("x"))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if info, err := remote.Stat(ctx, link); err != nil || !info.IsLink() || info.Size() != 1 {
		t.Errorf("Stat: %+v, %v", info, err)
	}
	if real, err := remote.Canonical(ctx, link); err != nil || real != target {
		t.Errorf("Canonical: %q, %v", real, err)
	}
}

func TestFilesErrors(t *testing.T) {
	t.Parallel()
	remote, ctx, dir := filesOf(t), tethertest.Within(t), t.TempDir()
	missing := filepath.Join(dir, "missing")
	for what, c := range map[string]struct {
		err  error
		want error
	}{
		"read":   {second(remote.ReadFile(ctx, missing)), fs.ErrNotExist},
		"open":   {second(remote.Open(ctx, missing)), fs.ErrNotExist},
		"stat":   {second(remote.Stat(ctx, missing)), fs.ErrNotExist},
		"remove": {remote.Remove(ctx, missing), fs.ErrNotExist},
		"mkdir":  {remote.Mkdir(ctx, dir), fs.ErrExist},
		"upload": {remote.Upload(ctx, filepath.Join(missing, "x"), strings.NewReader("x"), 1, files.UploadOptions{}), fs.ErrNotExist},
	} {
		e, ok := errors.AsType[*fs.PathError](c.err)
		if !errors.Is(c.err, c.want) || !ok || e.Op != what && what != "read" {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	if err := remote.RemoveAll(ctx, missing); err != nil {
		t.Errorf("RemoveAll of nothing: %v", err)
	}
	if _, err := remote.Stat(ctx, "relative"); err == nil || !strings.Contains(err.Error(), "not absolute") {
		t.Errorf("relative path: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestFS(t *testing.T) {
	t.Parallel()
	remote, dir := filesOf(t), t.TempDir()
	os.MkdirAll(filepath.Join(dir, "sub", "deep"), 0o755)
	os.WriteFile(filepath.Join(dir, "a.txt"), []byte("alpha"), 0o644)
	os.WriteFile(filepath.Join(dir, "sub", "b.txt"), tethertest.PatternBytes(t, 2000), 0o644)
	os.WriteFile(filepath.Join(dir, "sub", "deep", "none"), nil, 0o644)
	for _, root := range []string{dir, wire.PathToURI(dir) + "/"} {
		if err := fstest.TestFS(remote.FS(root), "a.txt", "sub/b.txt", "sub/deep/none"); err != nil {
			t.Error(err)
		}
	}
}

func TestSandboxedFiles(t *testing.T) {
	t.Parallel()
	c := dial(t, tethertest.StartServer(t, server.Config{}).URL, client.Options{})
	disabled := files.Of(c).Confined(&wire.Sandbox{Permissions: wire.Permissions{Type: wire.PermissionsDisabled}, WindowsSandboxLevel: wire.WindowsDisabled})
	name := writeLocal(t, []byte("x"))
	if got, err := disabled.ReadFile(tethertest.Within(t), name); string(got) != "x" || err != nil {
		t.Errorf("ReadFile: %q, %v", got, err)
	}
}

func TestFileSeekAndReadAt(t *testing.T) {
	t.Parallel()
	remote := filesOf(t)
	data := tethertest.PatternBytes(t, 3<<20)
	file, err := remote.Open(tethertest.Within(t), writeLocal(t, data))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, offset := range []int64{0, 1, 256 << 10, 100, 2 << 20, 2<<20 + 300<<10, 3<<20 - 1, 3 << 20, 4 << 20, 5} {
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		want := data[min(offset, int64(len(data))):]
		want = want[:min(len(want), 700_000)]
		got, err := io.ReadAll(io.LimitReader(file, 700_000))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("at %d: %d bytes, %v", offset, len(got), err)
		}
	}
	if end, err := file.Seek(-10, io.SeekEnd); end != 3<<20-10 || err != nil {
		t.Errorf("Seek: %d, %v", end, err)
	}
	if _, err := file.Seek(-1, io.SeekStart); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("Seek before the start: %v", err)
	}
	b := make([]byte, 1<<20)
	if n, err := file.ReadAt(b, 5); n != len(b) || err != nil || !bytes.Equal(b, data[5:5+len(b)]) {
		t.Errorf("ReadAt: %d, %v", n, err)
	}
	if n, err := file.ReadAt(b, 3<<20-7); n != 7 || err != io.EOF {
		t.Errorf("ReadAt the end: %d, %v", n, err)
	}
	file.Close()
	if _, err := file.Read(b); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
	if err := file.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Close again: %v", err)
	}
}

// Files that the system generates have the size 0, and are read to their end.
func TestFileWithoutSize(t *testing.T) {
	t.Parallel()
	remote := filesOf(t)
	var b bytes.Buffer
	if err := remote.Download(tethertest.Within(t), "/proc/version", &b, files.DownloadOptions{}); err != nil || b.Len() == 0 {
		t.Errorf("Download: %d bytes, %v", b.Len(), err)
	}
}

// cutter cuts a cable at each call, up to a number of times.
type cutter struct {
	cable *cable.Cable
	left  int
}

func (c *cutter) cut() {
	if c.left > 0 {
		c.left--
		c.cable.Cut()
		c.cable.Mend()
	}
}

type cuttingWriter struct {
	hash io.Writer
	cutter
}

func (w *cuttingWriter) Write(b []byte) (int, error) {
	w.cut()
	return w.hash.Write(b)
}

func TestDownloadThroughCuts(t *testing.T) {
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	c := dial(t, cable.URL(), client.Options{})
	data := tethertest.PatternBytes(t, 8<<20)
	sum := sha256.New()
	var last int64
	w := &cuttingWriter{sum, cutter{cable, 10}}
	err := files.Of(c).Download(tethertest.Within(t), writeLocal(t, data), w, files.DownloadOptions{Progress: func(done, total int64) {
		if done < last || total != int64(len(data)) {
			t.Errorf("progress %d of %d", done, total)
		}
		last = done
	}})
	if err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256(data); !bytes.Equal(sum.Sum(nil), want[:]) || last != int64(len(data)) {
		t.Errorf("other bytes arrived; progress %d", last)
	}
	if n := c.Status().Connection; n < 2 { // several cuts may fall into one recovery
		t.Errorf("%d connections", n)
	}
}

// If another file is in its place after a cut, reading fails with ErrChanged.
func TestFileChangedDuringCut(t *testing.T) {
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	c := dial(t, cable.URL(), client.Options{})
	name := writeLocal(t, tethertest.PatternBytes(t, 8<<20))
	file, err := files.Of(c).Open(tethertest.Within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.ReadFull(file, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	cable.Cut()
	os.Truncate(name, 7<<20)
	cable.Mend()
	if n, err := io.Copy(io.Discard, file); !errors.Is(err, files.ErrChanged) {
		t.Errorf("read %d more bytes: %v", n, err)
	}
	var e *fs.PathError
	if err := second(file.ReadAt(make([]byte, 1), 0)); !errors.As(err, &e) || !errors.Is(err, files.ErrChanged) {
		t.Errorf("ReadAt: %v", err)
	}
}

func TestFileReadEndsWithTheClient(t *testing.T) {
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	c := dial(t, cable.URL(), client.Options{})
	file, err := files.Of(c).Open(tethertest.Within(t), writeLocal(t, []byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	cable.Cut()
	reading := make(chan error, 1)
	go func() { reading <- second(file.Read(make([]byte, 1))) }()
	c.Close()
	if err := <-reading; !errors.Is(err, client.ErrClosed) {
		t.Errorf("Read: %v", err)
	}
}

func TestDownloadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	cable := tethertest.LayCable(t, tethertest.StartServer(t, server.Config{}).URL)
	c := dial(t, cable.URL(), client.Options{})
	ctx, cancel := context.WithCancel(tethertest.Within(t))
	w := writerFunc(func(b []byte) (int, error) {
		cable.Cut()
		cancel()
		return len(b), nil
	})
	err := files.Of(c).Download(ctx, writeLocal(t, tethertest.PatternBytes(t, 8<<20)), w, files.DownloadOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Download: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
