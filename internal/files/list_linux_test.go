package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/wire"
)

func TestReadDirectory(t *testing.T) {
	dir := fixture(t)
	write(t, in(dir, "n\xff\n"), "")
	got, err := direct.ReadDirectory(ctx, dir)
	must(t, err)
	slices.SortFunc(got, func(a, b wire.DirectoryEntry) int { return strings.Compare(a.FileName, b.FileName) })
	want := []wire.DirectoryEntry{
		{FileName: "d", IsDirectory: true}, {FileName: "dl", IsDirectory: true}, {FileName: "e", IsDirectory: true},
		{FileName: "f", IsFile: true}, {FileName: "fifo"}, {FileName: "fifol"}, {FileName: "l", IsFile: true},
		{FileName: "n\uFFFD\n", IsFile: true}, {FileName: "sock"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	if got, err := direct.ReadDirectory(ctx, in(dir, "e")); got == nil || len(got) != 0 || err != nil {
		t.Errorf("an empty directory: %v, %v", got, err)
	}
	for name, want := range map[string]outcome{
		"d/": fine, "dl": fine, "f": enotdir, "l": enotdir, "fifo": enotdir, "f/x": enotdir,
		"dang": enoent, "missing": enoent, "loop": eloop, longName: ename, "a\x00": nul,
	} {
		_, err := direct.ReadDirectory(ctx, in(dir, name))
		expect(t, fmt.Sprintf("%.20q", name), err, want)
	}
}

// manyFiles makes a directory with n empty files.
func manyFiles(t testing.TB, n int) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for i := range n {
		must(t, unix.Mknod(fmt.Sprintf("%s/file%06d.txt", dir, i), unix.S_IFREG|0o644, 0))
	}
	return dir
}

func TestDirectoryLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 50,000 files")
	}
	dir := manyFiles(t, MaxDirectory)
	must(t, os.Symlink("nowhere", in(dir, "dangling")))
	if got, err := direct.ReadDirectory(ctx, dir); len(got) != MaxDirectory || err != nil {
		t.Errorf("%d entries, %v", len(got), err)
	}
	write(t, in(dir, "one"), "")
	write(t, in(dir, "two"), "")
	_, err := direct.ReadDirectory(ctx, dir)
	expect(t, "too many", err, outcome{intl, "fs/readDirectory returned 50002 entries; limit is 50000"})

	got, err := direct.Walk(ctx, dir, everything)
	must(t, err)
	item := 64 + len(wire.PathToURI(dir+"/file000000.txt"))
	if want := (4 << 20) / item; len(got.Entries) != want || !got.Truncated {
		t.Errorf("%d entries of %d bytes, truncated %v, want %d", len(got.Entries), item, got.Truncated, want)
	}
	must(t, direct.Remove(ctx, dir, RemoveHow{Recursive: true, Follow: true}))
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

var everything = wire.WalkOptions{MaxDepth: MaxWalkDepth, MaxDirectories: MaxWalkDirs, MaxEntries: MaxWalkEntries}

func walkFixture(t testing.TB) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for _, name := range []string{"a", "a/x", "a/x/y", "b", ".h", ".h/q", "z"} {
		must(t, os.Mkdir(in(dir, name), 0o755))
	}
	for _, name := range []string{"a/1", "a/x/2", "a/x/y/3", "b/4", ".h/5", ".hf", "top", "z/6"} {
		write(t, in(dir, name), "")
	}
	for name, target := range map[string]string{
		"la": "a", "z/lb": "../b", "self": ".", "a/x/up": "../..", "lf": "top", "dang": "nope", "loop": "loop",
		"hl": ".h", ".hidl": "a/x",
	} {
		must(t, os.Symlink(target, in(dir, name)))
	}
	must(t, unix.Mkfifo(in(dir, "ff"), 0o644))
	return dir
}

// walked returns the result of a walk in short: names below dir, directories with
// a slash, errors with their text, and "…" if it is truncated.
func walked(t *testing.T, dir, root string, options wire.WalkOptions) string {
	t.Helper()
	got, err := direct.Walk(ctx, in(dir, root), options)
	if err != nil {
		return err.Error()
	}
	if got.Entries == nil || got.Errors == nil {
		t.Error("a nil list would be null on the wire")
	}
	var all []string
	for _, entry := range got.Entries {
		name := strings.TrimPrefix(entry.Path, wire.PathToURI(dir)+"/")
		if entry.Kind == wire.WalkDirectory {
			name += "/"
		}
		all = append(all, name)
	}
	for _, e := range got.Errors {
		all = append(all, "!"+strings.TrimPrefix(e.Path, wire.PathToURI(dir)+"/")+": "+e.Message)
	}
	if got.Truncated {
		all = append(all, "…")
	}
	return strings.Join(all, " ")
}

func TestWalk(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		dir := walkFixture(t)
		const top = ".h/ .hf a/ b/ top z/"
		const all = top + " .h/5 .h/q/ a/1 a/x/ b/4 z/6 a/x/2 a/x/y/ a/x/y/3"
		const linkedTop = ".h/ .hf .hidl/ a/ b/ hl/ la/ self/ top z/"
		for _, c := range []struct {
			root   string
			change func(*wire.WalkOptions)
			want   string
		}{
			{"", func(o *wire.WalkOptions) {}, all},
			{"", func(o *wire.WalkOptions) { o.MaxDepth = 0; o.MaxDirectories = 1 }, top},
			{"", func(o *wire.WalkOptions) { o.MaxDepth = 1 }, top + " .h/5 .h/q/ a/1 a/x/ b/4 z/6"},
			{"", func(o *wire.WalkOptions) { o.PruneHiddenDirectories = true },
				top + " a/1 a/x/ b/4 z/6 a/x/2 a/x/y/ a/x/y/3"},
			{"", func(o *wire.WalkOptions) { o.MaxDirectories = 1 }, top + " …"},
			{"", func(o *wire.WalkOptions) { o.MaxDirectories = 2 }, top + " .h/5 .h/q/ …"},
			{"", func(o *wire.WalkOptions) { o.MaxEntries = 1 }, ".h/ …"},
			{"", func(o *wire.WalkOptions) { o.MaxEntries = 3 }, ".h/ .hf …"}, // a link counts
			{"", func(o *wire.WalkOptions) { o.MaxEntries = 4 }, ".h/ .hf a/ …"},
			{"", func(o *wire.WalkOptions) { o.MaxEntries = 12; o.MaxDepth = 0 }, top}, // links to nothing do not
			{"", func(o *wire.WalkOptions) { o.MaxEntries = 11; o.MaxDepth = 0 }, ".h/ .hf a/ b/ top …"},
			{"", func(o *wire.WalkOptions) { o.FollowDirectorySymlinks = true }, linkedTop +
				" .h/5 .h/q/ .hidl/2 .hidl/up/ .hidl/y/ a/1 a/x/ b/4 z/6 z/lb/ .hidl/y/3"},
			{"", func(o *wire.WalkOptions) { o.FollowDirectorySymlinks = true; o.PruneHiddenDirectories = true }, linkedTop +
				" a/1 a/x/ b/4 hl/5 hl/q/ z/6 z/lb/ a/x/2 a/x/up/ a/x/y/ a/x/y/3"},
			{"", func(o *wire.WalkOptions) { o.FollowDirectorySymlinks = true; o.MaxDirectories = 7 }, linkedTop +
				" .h/5 .h/q/ .hidl/2 .hidl/up/ .hidl/y/ a/1 a/x/ b/4 z/6 z/lb/ …"},
			{"la", func(o *wire.WalkOptions) {}, ""},
			{"la/x", func(o *wire.WalkOptions) {}, "la/x/2 la/x/y/ la/x/y/3"},
			{"hl", func(o *wire.WalkOptions) { o.FollowDirectorySymlinks = true }, "hl/5 hl/q/"},
			{"top", func(o *wire.WalkOptions) {}, ""},
			{"ff", func(o *wire.WalkOptions) { o.FollowDirectorySymlinks = true }, ""},
			{"dang", func(o *wire.WalkOptions) {}, enoent.text},
			{"loop", func(o *wire.WalkOptions) { o.FollowDirectorySymlinks = true }, eloop.text},
			{"missing", func(o *wire.WalkOptions) {}, enoent.text},
			{"top/x", func(o *wire.WalkOptions) {}, enotdir.text},
			{"x\x00", func(o *wire.WalkOptions) {}, nul.text},
			{"", func(o *wire.WalkOptions) { o.MaxDirectories = 0; o.MaxDepth = 65 },
				"filesystem walk limits must be greater than zero"},
			{"", func(o *wire.WalkOptions) { o.MaxEntries++ },
				"filesystem walk limits exceed maximums: depth=64, directories=10000, entries=50000"},
		} {
			options := everything
			c.change(&options)
			if got := walked(t, dir, c.root, options); got != c.want {
				t.Errorf("%q %+v:\n%s\nwant\n%s", c.root, options, got, c.want)
			}
		}
	})
}

// A directory that has become a link since it was listed is not entered.
func TestWalkEntersNoLateLink(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		root, err := openWalk(walkFixture(t), false)
		must(t, err)
		defer root.close()
		for _, name := range []string{"la", "la/x"} {
			if _, err := root.list(ctx, name, 1); err != unix.ENOTDIR {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestWalkStrangeNames(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	strange := []string{"\xff", "C:", "a b", "nl\nx", "tab\t", "é", "%41", "back\\slash", "~_-+"}
	slices.Sort(strange)
	var want []string
	for _, name := range strange {
		must(t, os.Mkdir(in(dir, name), 0o755))
		want = append(want, wire.PathToURI(dir+"/"+name))
	}
	for _, name := range strange {
		write(t, in(dir, name)+"/in", "")
		want = append(want, wire.PathToURI(dir+"/"+name+"/in"))
	}
	got, err := direct.Walk(ctx, dir, everything)
	must(t, err)
	for i, entry := range got.Entries {
		if i >= len(want) || entry.Path != want[i] {
			t.Errorf("%s is not %v", entry.Path, want[min(i, len(want)-1)])
		}
	}
	if len(got.Entries) != len(want) || len(got.Errors) != 0 {
		t.Errorf("%d entries, errors %v", len(got.Entries), got.Errors)
	}
}

func walkWithoutRights(t *testing.T, mine string) {
	root := mine + "/walk"
	must(t, os.MkdirAll(root+"/no", 0o755))
	must(t, os.MkdirAll(root+"/nox/d", 0o755))
	write(t, root+"/nox/f", "")
	must(t, os.Symlink("f", root+"/nox/l"))
	must(t, os.Symlink("no", root+"/lno"))
	must(t, os.Chmod(root+"/no", 0))
	must(t, os.Chmod(root+"/nox", 0o744&^0o100))
	const denied = ": Permission denied (os error 13)"
	if got := walked(t, root, "", everything); got != "no/ nox/ !no"+denied+" !nox/d"+denied+" !nox/f"+denied {
		t.Error(got)
	}
	if got := walked(t, root, "nox", everything); got != "!nox/d"+denied+" !nox/f"+denied {
		t.Error(got)
	}
	if got := walked(t, root, "no", everything); got != "!no"+denied {
		t.Error(got)
	}
	follow := everything
	follow.FollowDirectorySymlinks = true
	if got := walked(t, root, "", follow); got != "lno/ no/ nox/ !lno"+denied+" !nox/d"+denied+" !nox/f"+denied {
		t.Error(got)
	}
}

func TestCancelled(t *testing.T) {
	dir := fixture(t)
	reason := errors.New("the client has gone")
	gone, cancel := context.WithCancelCause(ctx)
	cancel(reason)
	_, list := direct.ReadDirectory(gone, dir)
	_, walk := direct.Walk(gone, dir, everything)
	for what, err := range map[string]error{
		"list":   list,
		"walk":   walk,
		"copy":   direct.Copy(gone, in(dir, "d"), in(dir, "new"), true),
		"file":   direct.Copy(gone, in(dir, "f"), in(dir, "new/f"), true),
		"remove": direct.Remove(gone, in(dir, "d"), RemoveHow{Recursive: true, Follow: true}),
	} {
		if !errors.Is(err, reason) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if names(t, in(dir, "d")) != "ff in lnk sub" {
		t.Error("something was removed")
	}
}

// Parsing a directory listing of any bytes ends, and no name contains a NUL.
func FuzzParseDirent(f *testing.F) {
	record := append(make([]byte, 16), 24, 0, unix.DT_REG, 'a', 'b', 0, 0, 0)
	f.Add(record)
	f.Add(append(record, record[:20]...))
	f.Fuzz(func(t *testing.T, buf []byte) {
		for len(buf) > 0 {
			name, _, rest := parseDirent(buf)
			if len(rest) >= len(buf) {
				t.Fatal("no progress")
			}
			if bytes.IndexByte(name, 0) >= 0 || len(name) > len(buf) {
				t.Fatalf("name %q", name)
			}
			buf = rest
		}
	})
}

// The quick path to a URI gives the same result as the slow one.
func FuzzChildURI(f *testing.F) {
	for _, name := range []string{"a", "C:", "..", "a b", "\xff", "-_.9", "é/x"} {
		f.Add("/srv", name)
		f.Add("/", name)
		f.Add("/C:", name)
	}
	f.Fuzz(func(t *testing.T, dir, name string) {
		dir = filepath.Clean("/" + dir)
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") || strings.Contains(dir, "\x00") {
			return
		}
		if got, want := childURI(dir, wire.PathToURI(dir), name), wire.PathToURI(joinPath(dir, name)); got != want {
			t.Errorf("%q in %q: %s, want %s", name, dir, got, want)
		}
	})
}

func BenchmarkWalk50k(b *testing.B) {
	dir := manyFiles(b, 50_000)
	for b.Loop() {
		must1(direct.Walk(ctx, dir, everything))
	}
}

func BenchmarkWriteFile1K(b *testing.B) {
	data := bytes.Repeat([]byte("x"), 1024)
	path := filepath.Join(b.TempDir(), "f")
	for b.Loop() {
		must(b, direct.WriteFile(ctx, path, data, true))
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	write(b, path, "content")
	for b.Loop() {
		must1(direct.Open(ctx, path, true)).Close()
	}
}
