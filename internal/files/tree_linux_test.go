package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tetherexec/tether/internal/files/at"
	"github.com/tetherexec/tether/internal/tethertest/hang"
	"github.com/tetherexec/tether/internal/tethertest/need"
	"github.com/tetherexec/tether/wire"
)

func TestRemove(t *testing.T) {
	type answers struct{ tree, treeNoForce, one, oneNoForce, oneNoFollow outcome }
	bothWays(t, func(t *testing.T) {
		for name, want := range map[string]answers{
			"f":         {fine, fine, fine, fine, fine},
			"f/":        {fine, fine, fine, fine, fine},
			"d":         {fine, fine, nonempty, nonempty, nonempty},
			"e":         {fine, fine, fine, fine, fine},
			"l":         {fine, fine, fine, fine, linked},
			"dl":        {fine, fine, fine, fine, linked},
			"dl/":       {fine, fine, fine, fine, linked},
			"dl/in":     {fine, fine, fine, fine, enotdir},
			"dang":      {fine, fine, fine, fine, linked},
			"loop":      {fine, fine, fine, fine, linked},
			"loop/x":    {eloop, eloop, eloop, eloop, enotdir},
			"fifo":      {fine, fine, fine, fine, fine},
			"f/x":       {enotdir, enotdir, enotdir, enotdir, enotdir},
			"missing":   {fine, enoent, fine, enoent, fine},
			"missing/x": {fine, enoent, fine, enoent, fine},
			"/":         {ebusy, ebusy, ebusy, ebusy, noEntry},
			longName:    {ename, ename, ename, ename, ename},
			"a\x00b":    {nul, nul, nul, nul, einval},
		} {
			for i, want := range []outcome{want.tree, want.treeNoForce, want.one, want.oneNoForce, want.oneNoFollow} {
				dir := fixture(t)
				how := RemoveHow{Recursive: i < 2, Force: i%2 == 0, Follow: i < 4}
				err := direct.Remove(ctx, in(dir, name), how)
				expect(t, fmt.Sprintf("%.20q %+v", name, how), err, want)
				if _, there := os.Lstat(filepath.Clean(in(dir, name))); err == nil && there == nil {
					t.Errorf("%s is still there", name)
				}
				if !strings.HasPrefix(name, "f") && read(t, in(dir, "f")) != "hello" {
					t.Errorf("removing %s has changed f", name)
				}
			}
		}
	})
	expect(t, "recursive, no links", direct.Remove(ctx, "/nowhere", RemoveHow{Recursive: true}),
		outcome{intl, "recursive no-follow removal is unsupported"})
}

// deep makes a tree with more levels than a path could name, and returns its
// top.
func deep(t testing.TB, levels int) string {
	t.Helper()
	top := filepath.Join(t.TempDir(), "top")
	must(t, os.Mkdir(top, 0o755))
	dir, err := at.Openat(unix.AT_FDCWD, top, at.Directory, 0)
	must(t, err)
	for range levels {
		must(t, unix.Mkdirat(dir, "level", 0o755))
		must(t, unix.Symlinkat("/etc", dir, "link"))
		next, err := at.Openat(dir, "level", at.Directory, 0)
		must(t, err)
		unix.Close(dir)
		dir = next
	}
	unix.Close(dir)
	return top
}

func TestRemoveDeepTree(t *testing.T) {
	if !elsewhere(t, nil) {
		return
	}
	top := deep(t, 1000)
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3 * heldLevels, Max: 3 * heldLevels}))
	before := openFiles(t)
	must(t, direct.Remove(ctx, top, RemoveHow{Recursive: true, Follow: true}))
	if _, err := os.Lstat(top); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("open are %s, were %s", after, before)
	}
}

// openFiles lists the files of this process's descriptors.
func openFiles(t testing.TB) string {
	var all []string
	for _, fd := range strings.Fields(names(t, "/proc/self/fd")) {
		target, _ := os.Readlink("/proc/self/fd/" + fd)
		if strings.HasPrefix(target, "/") {
			all = append(all, target)
		}
	}
	return strings.Join(all, " ")
}

func TestCopyAnswers(t *testing.T) {
	recursive := outcome{inv, "fs/copy requires recursive: true when sourcePath is a directory"}
	inside := outcome{inv, "fs/copy cannot copy a directory to itself or one of its descendants"}
	special := outcome{inv, "fs/copy only supports regular files, directories, and symlinks"}
	for _, c := range []struct {
		from, to  string
		one, tree outcome
	}{
		{"f", "new", fine, fine},
		{"f", "f", fine, fine},
		{"f", "l", fine, fine},
		{"f", "dang", fine, fine},
		{"f", "d", eisdir, eisdir},
		{"f", "dl", eisdir, eisdir},
		{"f", "/", eisdir, eisdir},
		{"f", "loop", eloop, eloop},
		{"f", "missing/x", enoent, enoent},
		{"f", "f/x", enotdir, enotdir},
		{"f", "/dev/null", fine, fine},
		{"f", "/dev/full", enospc, enospc},
		{"f", "fifo", notAFile("DIR/fifo"), notAFile("DIR/fifo")},
		{"f", "sock", enxio, enxio},
		{"f", longName, ename, ename},
		{"l", "new", fine, fine},
		{"l", "l", eexist, eexist},
		{"l", "d", eexist, eexist},
		{"dl", "new", fine, fine},
		{"dang", "new", fine, fine},
		{"l", "missing/new", enoent, enoent},
		{"d", "new", recursive, fine},
		{"d/", "new/", recursive, fine},
		{"d", "e", recursive, fine},
		{"d", "missing/new", recursive, fine},
		{"dl/sub", "new", recursive, fine},
		{"d/sub", "d", recursive, fine},
		{"d", "d", recursive, inside},
		{"d", "d/sub", recursive, inside},
		{"d", "d/new/deep", recursive, inside},
		{"d", "dl", recursive, inside},
		{"d", "dl/new", recursive, inside},
		{"/", "new", recursive, inside},
		{"d", "d2", recursive, fine},
		{"d", "f", recursive, eexist},
		{"d", "f/x", recursive, enotdir},
		{"d", "l", recursive, eexist},
		{"d", "dang", recursive, eexist},
		{"d", "dang/x", recursive, eexist},
		{"d", "loop/x", recursive, eloop},
		{"d", "fifo", recursive, eexist},
		{"d", longName, recursive, ename},
		{"fifo", "new", special, special},
		{"sock", "new", special, special},
		{"/dev/null", "new", special, special},
		{"missing", "new", enoent, enoent},
		{"f/x", "new", enotdir, enotdir},
		{"loop/x", "new", eloop, eloop},
		{"a\x00", "new", nul, nul},
		{"d", "a\x00", nul, nul},
	} {
		for tree, want := range map[bool]outcome{false: c.one, true: c.tree} {
			dir := fixture(t)
			err := direct.Copy(ctx, in(dir, c.from), in(dir, c.to), tree)
			want.text = strings.ReplaceAll(want.text, "DIR", dir)
			expect(t, fmt.Sprintf("%q to %.20q, recursive %v", c.from, c.to, tree), err, want)
			if read(t, in(dir, "f")) != "hello" || read(t, in(dir, "d/in")) != "inside" {
				t.Errorf("%s to %s has changed the source", c.from, c.to)
			}
		}
	}
}

func TestCopyContent(t *testing.T) {
	dir := fixture(t)
	must(t, os.Chmod(in(dir, "f"), 0o751|os.ModeSetuid))
	write(t, in(dir, "g"), "something longer than that")
	for _, name := range []string{"g", "new"} {
		must(t, direct.Copy(ctx, in(dir, "f"), in(dir, name), false))
		if mode := must1(os.Stat(in(dir, name))).Mode(); read(t, in(dir, name)) != "hello" || mode != 0o751|os.ModeSetuid {
			t.Errorf("%s: %q, %v", name, read(t, in(dir, name)), mode)
		}
	}
	must(t, os.Link(in(dir, "f"), in(dir, "hard")))
	must(t, direct.Copy(ctx, in(dir, "f"), in(dir, "hard"), false))
	if read(t, in(dir, "hard")) != "hello" {
		t.Error("a file that was copied onto itself has changed")
	}
	must(t, direct.Copy(ctx, in(dir, "dl"), in(dir, "dl2"), true))
	if target, err := os.Readlink(in(dir, "dl2")); target != "d" {
		t.Errorf("a link has become %q, %v", target, err)
	}
	must(t, direct.Copy(ctx, "/proc/self/status", in(dir, "status"), false)) // its size is 0
	if !strings.HasPrefix(read(t, in(dir, "status")), "Name:") {
		t.Errorf("/proc/self/status has become %q", read(t, in(dir, "status")))
	}
}

func TestCopyMerges(t *testing.T) {
	dir := fixture(t)
	must(t, os.MkdirAll(in(dir, "new/sub"), 0o700))
	write(t, in(dir, "new/sub/kept"), "kept")
	write(t, in(dir, "new/in"), "old, and longer than the new")
	write(t, in(dir, "d/sub/\xff"), "strange")
	must(t, direct.Copy(ctx, in(dir, "d"), in(dir, "new"), true))
	if got := names(t, in(dir, "new")); got != "in lnk sub" { // no FIFO
		t.Errorf("copied %s", got)
	}
	if got := read(t, in(dir, "new/in")) + read(t, in(dir, "new/sub/kept")) + read(t, in(dir, "new/sub/\xff")); got != "insidekeptstrange" {
		t.Errorf("content %q", got)
	}
	expect(t, "again", direct.Copy(ctx, in(dir, "d"), in(dir, "new"), true), eexist) // the link
	if mode := must1(os.Stat(in(dir, "new/sub"))).Mode(); mode != 0o700|os.ModeDir {
		t.Errorf("the mode of an existing directory has become %v", mode)
	}
}

func TestCopyDeepTree(t *testing.T) {
	top, before := deep(t, 1000), openFiles(t)
	expect(t, "deeper than paths", direct.Copy(ctx, top, filepath.Join(t.TempDir(), "new"), true), ename)
	if after := openFiles(t); after != before {
		t.Errorf("open are %s, were %s", after, before)
	}
	must(t, direct.Remove(ctx, top, RemoveHow{Recursive: true, Follow: true}))
}

// swapping exchanges two names as fast as it can while do runs rounds times.
func swapping(t *testing.T, a, b string, rounds int, do func()) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { // ends with stop, awaited below
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil && err != unix.ENOENT {
				stopped <- err
				return
			}
		}
	}()
	for range rounds {
		do()
	}
	close(stop)
	if err := <-stopped; err != nil {
		need.CannotRun(t, "exchange names: %v", err)
	}
}

// If a parent directory is swapped with a link again and again, a request that
// may not follow links never reaches the link's target.
func TestSwappedParent(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		dir := fixture(t)
		outside := t.TempDir()
		write(t, outside+"/in", "outside")
		must(t, os.Mkdir(outside+"/sub", 0o755))
		must(t, os.Symlink(outside, in(dir, "trap")))
		inside, path := 0, in(dir, "d/in")
		attack := func() {
			if direct.WriteFile(ctx, path, []byte("mine"), false) == nil {
				inside++
			}
			if direct.WriteFile(ctx, in(dir, "d/new"), []byte("mine"), false) == nil {
				inside++
			}
			_ = direct.CreateDirectory(ctx, in(dir, "d/a/b"), true, false)
			_ = direct.Remove(ctx, in(dir, "d/sub"), RemoveHow{Force: true})
			if file, err := direct.Open(ctx, path, false); err == nil {
				buf := make([]byte, 16)
				n, _ := file.Read(buf)
				file.Close()
				if string(buf[:n]) == "outside" {
					t.Error("read what is outside")
				}
			}
		}
		// On a busy machine the goroutine that swaps may not run for many rounds.
		for deadline := time.Now().Add(hang.Limit); inside == 0 && time.Now().Before(deadline); {
			swapping(t, in(dir, "d"), in(dir, "trap"), 500, attack)
		}
		if read(t, outside+"/in") != "outside" || names(t, outside) != "in sub" {
			t.Errorf("outside is now: %s, %q", names(t, outside), read(t, outside+"/in"))
		}
		if inside == 0 {
			t.Error("nothing was ever written: the race did not happen")
		}
	})
}

// A directory that becomes a link while the tree around it is removed is removed
// as a link.
func TestDirectorySwappedDuringRemoval(t *testing.T) {
	outside := t.TempDir()
	write(t, outside+"/precious", "")
	late := t.TempDir()
	must(t, os.Symlink(outside, late+"/listed-as-directory"))
	at := must1(find(late+"/listed-as-directory", true))
	defer at.close()
	must(t, (&removal{root: at}).enter(at))
	if names(t, late) != "" {
		t.Errorf("left: %s", names(t, late))
	}
	for range 50 {
		dir := t.TempDir()
		must(t, os.MkdirAll(dir+"/tree/victim/deep", 0o755))
		for i := range 20 {
			write(t, fmt.Sprintf("%s/tree/victim/deep/%d", dir, i), "")
		}
		must(t, os.Symlink(outside, dir+"/tree/trap"))
		swapping(t, dir+"/tree/victim", dir+"/tree/trap", 1, func() {
			_ = direct.Remove(ctx, dir+"/tree", RemoveHow{Recursive: true, Follow: true})
		})
	}
	if names(t, outside) != "precious" {
		t.Fatal("something outside was removed")
	}
}

// A file that another program replaces between the look and the write is not changed any more: programs that have it
// open read its content whole.
func TestReplacedFileIsNotWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	old, theirs, ours := strings.Repeat("a", 100_000), strings.Repeat("b", 50_000), strings.Repeat("c", 20_000)
	for _, remove := range []bool{false, true} {
		write(t, path, old)
		reader := must1(os.Open(path))
		defer reader.Close()
		p := must1(find(path, false))
		defer p.close()
		fd, st, err := p.look(false)
		must(t, err)
		defer unix.Close(fd)
		if remove {
			must(t, os.Remove(path))
		} else {
			must(t, direct.WriteFile(ctx, path, []byte(theirs), true))
		}
		if err := p.overwrite(fd, st, p, path, []byte(ours), true); err != errReplaced {
			t.Errorf("removed %v: the write ended with %v", remove, err)
		}
		if got := string(must1(io.ReadAll(reader))); got != old {
			t.Errorf("removed %v: a reader of the old file got %d bytes, beginning with %.1q", remove, len(got), got)
		}
		must(t, direct.WriteFile(ctx, path, []byte(ours), true))
		if read(t, path) != ours {
			t.Errorf("removed %v: the write after it has no effect", remove)
		}
	}
}

// A reader that runs during writes sees one content or the other, whole.
func TestWritersAndReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	contents := []string{strings.Repeat("a", 100_000), strings.Repeat("b", 50_000)}
	write(t, path, contents[0])
	done := make(chan error, len(contents))
	for _, content := range contents {
		go func() { // ends after its writes, awaited below
			var err error
			for i := 0; i < 100 && err == nil; i++ {
				err = direct.WriteFile(ctx, path, []byte(content), true)
			}
			done <- err
		}()
	}
	for left := len(contents); left > 0; {
		if got := read(t, path); !slices.Contains(contents, got) {
			t.Errorf("read %d bytes, beginning with %.1q", len(got), got)
		}
		select {
		case err := <-done:
			must(t, err)
			left--
		default:
		}
	}
	if got := names(t, filepath.Dir(path)); got != "f" {
		t.Errorf("left: %s", got)
	}
}

// Where the system cannot make directories, it reports that something is missing
// although nothing is.
func TestCreateDirectoryInProc(t *testing.T) {
	err := Direct{}.CreateDirectory(t.Context(), "/proc/none/below", true, true)
	if e, ok := errors.AsType[*Error](err); !ok || e.Code() != wire.CodeNotFound {
		t.Errorf("made: %v", err)
	}
}

// Requests that make a directory and others below it may run at the same time: `tether cp`
// sends them so.
func TestCreateDirectoriesAtOnce(t *testing.T) {
	for i := range 100 {
		top := filepath.Join(t.TempDir(), strconv.Itoa(i), "to")
		var group sync.WaitGroup
		for _, below := range []string{"", "a", "a/b", "a/b/c", "d", "d/e"} {
			group.Go(func() {
				if err := (Direct{}).CreateDirectory(t.Context(), filepath.Join(top, below), true, true); err != nil {
					t.Errorf("%q: %v", below, err)
				}
			})
		}
		group.Wait()
	}
}
