package files

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The results in these tables are those of the reference, except for devices and
// FIFOs, which it opens and we do not.

func TestOpen(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		dir := fixture(t)
		for _, c := range []struct {
			name             string
			follow, noFollow outcome
		}{
			{"f", fine, fine},
			{"f/", fine, fine},
			{"d/../f", fine, fine},
			{"dl/../f", fine, fine}, // by the names alone
			{"missing/../f", fine, fine},
			{"d//./in", fine, fine},
			{"l", fine, eloop},
			{"dl/in", fine, enotdir},
			{"d", notAFile(dir + "/d"), irregu},
			{"dl", notAFile(dir + "/dl"), eloop},
			{"fifo", notAFile(dir + "/fifo"), irregu},
			{"fifol", notAFile(dir + "/fifol"), eloop},
			{"sock", enxio, enxio},
			{"/dev/null", notAFile("/dev/null"), irregu},
			{"/", notAFile("/"), noEntry},
			{"dang", enoent, eloop},
			{"loop", eloop, eloop},
			{"loop/x", eloop, enotdir},
			{"f/x", enotdir, enotdir},
			{"missing", enoent, enoent},
			{"missing/x", enoent, enoent},
			{longName, ename, ename},
			{longPath, ename, enoent},
			{"a\x00b", nul, einval},
			{"/proc/self/status", fine, enotdir},
		} {
			for follow, want := range map[bool]outcome{true: c.follow, false: c.noFollow} {
				file, err := direct.Open(ctx, in(dir, c.name), follow)
				expect(t, fmt.Sprintf("%.20q, follow %v", c.name, follow), err, want)
				if err == nil {
					if data, err := io.ReadAll(file); err != nil || len(data) == 0 {
						t.Errorf("%s: read %q, %v", c.name, data, err)
					}
					file.Close()
				}
			}
		}
	})
	_, err := direct.Open(ctx, "relative", true)
	expect(t, "a relative path", err, outcome{inv, "path is not absolute"})
}

func TestOpenSeesOneFile(t *testing.T) {
	dir := fixture(t)
	file, err := direct.Open(ctx, in(dir, "f"), true)
	must(t, err)
	defer file.Close()
	must(t, os.Rename(in(dir, "d/in"), in(dir, "f")))
	if data, _ := io.ReadAll(file); string(data) != "hello" {
		t.Errorf("the open file has become %q", data)
	}
}

func TestReplace(t *testing.T) {
	dir := fixture(t)
	for name, want := range map[string]outcome{
		"f": fine, "l": fine, "new": fine, "dl/new": fine,
		"d": eisdir, "dl": eisdir, "/": eisdir,
		"fifo": enxio, "sock": enxio, "/dev/null": notAFile("/dev/null"),
		"loop": eloop, "f/x": enotdir, "missing/x": enoent, longName: ename, "a\x00": nul,
	} {
		file, err := direct.Replace(ctx, in(dir, name))
		expect(t, name, err, want)
		if err == nil {
			if info, _ := file.Stat(); info.Size() != 0 {
				t.Errorf("%s: %d bytes are left", name, info.Size())
			}
			file.Close()
		}
	}
	reader, err := os.OpenFile(in(dir, "fifo"), os.O_RDWR, 0)
	must(t, err)
	defer reader.Close()
	_, err = direct.Replace(ctx, in(dir, "fifo"))
	expect(t, "a FIFO with a reader", err, notAFile(dir+"/fifo"))
	file, err := direct.Replace(ctx, in(dir, "dang"))
	must(t, err)
	file.Close()
	if _, err := os.Lstat(in(dir, "nowhere")); err != nil {
		t.Error("a link to nothing has not made its target")
	}
	if info, _ := os.Stat(in(dir, "f")); info.Mode() != 0o751 {
		t.Errorf("the mode has become %v", info.Mode())
	}
}

func TestWriteFileAnswers(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		for _, c := range []struct {
			name             string
			follow, noFollow outcome
		}{
			{"f", fine, fine},
			{"f/", fine, fine},
			{"new", fine, fine},
			{"new/", fine, fine},
			{"l", fine, eloop},
			{"dl/in", fine, enotdir},
			{"dl/new", fine, enotdir},
			{"dang", fine, eloop},
			{"d", eisdir, eisdir},
			{"dl", eisdir, eloop},
			{"loop", eloop, eloop},
			{"fifo", notAFile("DIR/fifo"), enxio},
			{"sock", enxio, enxio},
			{"/dev/null", fine, irregu},
			{"/dev/full", enospc, irregu},
			{"/", eisdir, noEntry},
			{"f/x", enotdir, enotdir},
			{"missing/x", enoent, enoent},
			{longName, ename, ename},
			{longPath, ename, enoent},
			{"a\x00b", nul, einval},
		} {
			for follow, want := range map[bool]outcome{true: c.follow, false: c.noFollow} {
				dir := fixture(t)
				want.text = strings.ReplaceAll(want.text, "DIR", dir)
				err := direct.WriteFile(ctx, in(dir, c.name), []byte("new content"), follow)
				expect(t, fmt.Sprintf("%.20q, follow %v", c.name, follow), err, want)
				if err == nil && c.name != "/dev/null" {
					if got := read(t, filepath.Clean(in(dir, c.name))); got != "new content" {
						t.Errorf("%s has %q", c.name, got)
					}
				}
			}
		}
	})
}

func TestWriteFileToARunningProgram(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	cat, err := exec.LookPath("cat")
	must(t, err)
	must(t, direct.Copy(ctx, must1(filepath.EvalSymlinks(cat)), program, false))
	cmd := exec.Command(program)
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	expect(t, "a running program", direct.WriteFile(ctx, program, nil, true), etxtbsy)
	stdin.Close()
	must(t, cmd.Wait())
}

func must1[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestCreateDirectory(t *testing.T) {
	type answers struct{ all, one, allNoFollow, oneNoFollow outcome }
	bothWays(t, func(t *testing.T) {
		for name, want := range map[string]answers{
			"d":         {fine, eexist, fine, eexist},
			"d/":        {fine, eexist, fine, eexist},
			"dl":        {fine, eexist, enotdir, eexist},
			"dl/new":    {fine, fine, enotdir, enotdir},
			"dang":      {eexist, eexist, enotdir, eexist},
			"dang/x":    {eexist, enoent, enotdir, enotdir},
			"loop":      {eexist, eexist, enotdir, eexist},
			"loop/x":    {eloop, eloop, enotdir, enotdir},
			"f":         {eexist, eexist, enotdir, eexist},
			"f/x":       {enotdir, enotdir, enotdir, enotdir},
			"fifo":      {eexist, eexist, enotdir, eexist},
			"new":       {fine, fine, fine, fine},
			"missing/x": {fine, enoent, fine, enoent},
			"a/b/c/d":   {fine, enoent, fine, enoent},
			"/":         {fine, eexist, fine, outcome{intl, "directory already exists"}},
			longName:    {ename, ename, ename, ename},
			"a\x00b":    {nul, nul, einval, einval},
		} {
			for i, want := range []outcome{want.all, want.one, want.allNoFollow, want.oneNoFollow} {
				dir, recursive, follow := fixture(t), i%2 == 0, i < 2
				err := direct.CreateDirectory(ctx, in(dir, name), recursive, follow)
				expect(t, fmt.Sprintf("%.20q, recursive %v, follow %v", name, recursive, follow), err, want)
				if info, e := os.Stat(in(dir, name)); err == nil && (e != nil || !info.IsDir()) {
					t.Errorf("%s has not been made", name)
				}
			}
		}
	})
}

func TestMetadataWithoutOpenat2(t *testing.T) {
	bothWays(t, func(t *testing.T) {
		dir := fixture(t)
		for name, want := range map[string]outcome{
			"f": fine, "f/": fine, "/": fine, "fifo": fine, "l": linked, "dl/": linked, "dl/in": enotdir,
			"loop/x": enotdir, "f/x": enotdir, "missing": enoent, longName: ename, "a\x00b": einval,
		} {
			_, err := direct.Metadata(ctx, in(dir, name), false)
			expect(t, fmt.Sprintf("%.20q", name), err, want)
		}
	})
	_, err := direct.Metadata(ctx, "/a\x00b", true)
	expect(t, "NUL", err, nul)
}

func TestCanonicalize(t *testing.T) {
	dir := fixture(t)
	strange := dir + "/n\xff (deleted)"
	write(t, strange, "")
	for name, want := range map[string]string{
		"f": dir + "/f", "f/": dir + "/f", "l": dir + "/f", "dl": dir + "/d", "dl/in": dir + "/d/in",
		"d/lnk": dir + "/d/in", "dl/../f": dir + "/f", "fifo": dir + "/fifo", "/": "/", strange: strange,
	} {
		if got, err := direct.Canonicalize(ctx, in(dir, name)); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]outcome{
		"missing": enoent, "dang": enoent, "loop": eloop, "f/x": enotdir, longName: ename, longPath: ename, "a\x00": nul,
	} {
		_, err := direct.Canonicalize(ctx, in(dir, name))
		expect(t, fmt.Sprintf("%.20q", name), err, want)
	}
}
